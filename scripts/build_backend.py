"""Builds with setuptools: every folder of Python files, and the project's pages in the metadata.

The pages are those of its git `origin`. No address is written down here, so a fork's wheel names
the fork. Without an `origin` that anybody can open with https there are none.
"""

from pathlib import Path

from package_folders import package_folders
from project_pages import project_urls, read_origin, urls_of_source
from setuptools import build_meta
from setuptools.command.egg_info import manifest_maker
from setuptools.dist import Distribution

_finalize_options = Distribution.finalize_options
_parse_config_files = Distribution.parse_config_files
_add_defaults = manifest_maker.add_defaults

build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def _find_packages(distribution: Distribution, *args: object, **options: object) -> None:
    _parse_config_files(distribution, *args, **options)
    distribution.packages = list(package_folders(Path(), distribution.package_dir))


def _add_urls(distribution: Distribution) -> None:
    _finalize_options(distribution)
    found = project_urls(read_origin(Path(".git/config")))
    distribution.metadata.project_urls = found or urls_of_source(Path("PKG-INFO"))


def _add_this_file(maker: manifest_maker) -> None:
    _add_defaults(maker)
    # A source distribution is built with them.
    for name in ("build_backend", "package_folders", "project_pages"):
        maker.filelist.append(f"scripts/{name}.py")


Distribution.finalize_options = _add_urls
Distribution.parse_config_files = _find_packages
manifest_maker.add_defaults = _add_this_file
