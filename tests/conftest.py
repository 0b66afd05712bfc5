"""What holds for all tests: a failed assertion of `tests.support` shows its values, as one of a test does."""

import pytest

pytest.register_assert_rewrite("tests.support")
