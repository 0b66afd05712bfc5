"""A model in another process behaves as one in the server's process: the same tests, with IPC messages between the two.

Tests that cannot hold are left out: an exception of author code arrives with the same text, but as another type.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.behaviour.test_app_output import *  # noqa: F403
from tests.behaviour.test_app_sessions import *  # noqa: F403
from tests.behaviour.test_app_steps import *  # noqa: F403
from tests.behaviour.test_driver_matrix import *  # noqa: F403
from tests.behaviour.test_generator_lifecycle import *  # noqa: F403
from tests.behaviour.test_playback import *  # noqa: F403
from tests.behaviour.test_several_clients import *  # noqa: F403
from tests.behaviour.test_told_values import *  # noqa: F403
from tests.behaviour.test_upload_behaviour import *  # noqa: F403
from tests.worlds.test_listing import *  # noqa: F403
from tests.worlds.test_pictures import *  # noqa: F403
from tests.worlds.test_rewind import *  # noqa: F403

import reactor_trio.testing.memory_server as kit

for left_out in [
    "test_metadata_that_does_not_fit_is_refused",
    "test_sound_has_no_metadata",
    "test_generate_cannot_emit",
    "test_a_hook_that_raises_ends_the_session",
    "test_an_error_ends_this_session_and_the_next_client_is_served",
    "test_a_result_that_is_no_output_ends_the_session",
    "test_a_model_that_raises_ends_its_session_and_serves_the_next",
    "test_an_exception_ends_its_session_and_not_the_server",
    "test_an_exception_between_two_awaits_of_a_step_ends_its_session",
    "test_a_finally_that_raises_does_not_mask_the_earlier_error",
    "test_a_child_of_the_author_s_nursery_that_fails_ends_the_session_with_its_error",
    "test_file_uploaded_runs_before_a_command_that_names_the_file",  # it asks for one object in both, which are now two
    "test_a_file_is_in_memory_once_however_many_commands_name_it",
]:
    del globals()[left_out]


@pytest.fixture(autouse=True)
def isolated(monkeypatch):
    placement_loader = kit.placement_loader

    def in_a_process(source, *args, **options):
        settings = msgspec.structs.replace(source.settings, isolation="process")
        return placement_loader(msgspec.structs.replace(source, settings=settings), *args, **options)

    monkeypatch.setattr(kit, "placement_loader", in_a_process)
