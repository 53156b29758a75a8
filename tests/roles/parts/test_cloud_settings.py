"""`aws` and `google` of a provider's table: what is signed for, what is hidden, what is refused."""

import pytest

from swarm.mailbox.parts.clouds.cloud_messages import AwsTable, GoogleTable
from swarm.roles.parts.clouds.cloud_settings import cloud_problem, find_credentials

HOME = {"HOME": "/home/ada"}


def found(base_url, aws=None, google=None, **variables):
    return find_credentials("model_providers.x", base_url, (aws, google), HOME | variables)


@pytest.mark.parametrize(
    ("address", "region", "service"),
    [
        ("https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", "us-east-1", "bedrock"),
        ("https://bedrock-mantle.eu-central-1.api.aws/v1", "eu-central-1", "bedrock-mantle"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x", "us-gov-west-1", "bedrock"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn/openai/v1", "cn-north-1", "bedrock"),
        (
            "https://vpce-1.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com/openai/v1",
            "ap-southeast-2",
            "bedrock",
        ),
    ],
)
def test_the_address_says_region_and_service_unless_the_table_does(address, region, service):
    assert cloud_problem(address, AwsTable(), None) is None
    made = found(address, AwsTable())
    assert (made.region, made.service) == (region, service)
    own = found(address, AwsTable(region="r-1", service="other"))
    assert (own.region, own.service) == ("r-1", "other")


@pytest.mark.parametrize(
    ("address", "aws", "google", "key"),
    [
        ("http://bedrock-runtime.us-east-1.amazonaws.com", AwsTable(), None, "aws"),
        ("http://models.example", None, GoogleTable(), "google"),
        ("https://proxy.example/openai/v1", AwsTable(), None, "aws.region"),
        ("https://proxy.example/", AwsTable(region="a/b"), None, "aws.region"),
        ("https://proxy.example/", AwsTable(region="r", service="a b"), None, "aws.service"),
        ("https://proxy.example/", AwsTable(region="r", profile="a\nb"), None, "aws.profile"),
        ("https://proxy.example/", None, GoogleTable(scopes=()), "google.scopes"),
        ("https://proxy.example/", None, GoogleTable(scopes=("a b",)), "google.scopes"),
    ],
)
def test_what_cannot_be_signed_for_or_would_be_read_on_its_way_is_an_error(
    address, aws, google, key
):
    problem = cloud_problem(address, aws, google)
    assert problem is not None
    assert problem[0] == key


def test_a_server_on_this_machine_and_a_provider_without_a_cloud_are_fine():
    assert cloud_problem("http://127.0.0.1:8000/v1", AwsTable(region="r"), None) is None
    assert cloud_problem("http://anything.example", None, None) is None
    assert found("http://anything.example") is None


def test_files_that_hold_credentials_are_known_also_where_variables_name_them():
    aws = found(
        "https://x.example", AwsTable(region="r"),
        AWS_CONFIG_FILE="~/c", AWS_SHARED_CREDENTIALS_FILE="/k/s", AWS_WEB_IDENTITY_TOKEN_FILE="no",
    )  # fmt: skip
    assert aws.files == ("/home/ada/.aws", "/home/ada/c", "/k/s")
    google = found("https://x.example", None, GoogleTable(), GOOGLE_APPLICATION_CREDENTIALS="/k/g")
    assert google.files == ("/home/ada/.config/gcloud", "/k/g")
    named = found("https://x.example", None, GoogleTable(credentials_file="/k/t"))
    assert named.files == ("/home/ada/.config/gcloud", "/k/t")
    moved = found("https://x.example", None, GoogleTable(), CLOUDSDK_CONFIG="/g")
    assert moved.files == ("/g",)
