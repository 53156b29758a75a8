"""Requirements of several sources: each key counts from the first source that sets it."""

import msgspec

from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.layers.requirements_file import _FIELDS, fill_unset


def test_every_key_of_the_file_names_a_field_of_the_requirements():
    assert set(_FIELDS.values()) <= set(Requirements.__struct_fields__)


def test_a_key_is_taken_from_the_first_source_that_sets_it():
    first = Requirements(approvals=("never",), places={"allowed_approval_policies": "a"})
    second = Requirements(
        approvals=("untrusted",),
        web_search=("disabled",),
        places={"allowed_approval_policies": "b", "allowed_web_search_modes": "b"},
    )
    filled = fill_unset(first, second)
    assert (filled.approvals, filled.web_search) == (("never",), ("disabled",))
    assert filled.places == {"allowed_approval_policies": "a", "allowed_web_search_modes": "b"}
    assert msgspec.structs.replace(filled, web_search=None, places=first.places) == first
