"""The runner of the documentation's blocks: what passes, and that it fails with the page and the line of what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks.page import BlockFailed, blocks_of
from tests.docs.blocks.run_page import run_page
from tests.docs.blocks.shell import Server, commands, installed

MODEL = """
```python
# model.py
import numpy as np

from reactor_trio import Output, ReactorPipeline, Video


class Picture(Output):
    main_video: Video


class Grey(ReactorPipeline):
    def inference(self):
        while True:
            yield Picture(main_video=np.full((64, 64, 3), 128, np.uint8))
```
"""


def run(folder: Path, text: str) -> None:
    """Run a page with this text, in an empty folder."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (folder / "empty").mkdir()
    run_page(page, folder / "empty")


def fails(folder: Path, text: str) -> str:
    with pytest.raises(BlockFailed) as caught:
        run(folder, text)
    return str(caught.value)


def test_a_page_is_run_from_top_to_bottom(tmp_path):
    run(tmp_path, """
# A page

```python
# folder/helper.py
NUMBER = 3
```

```python
from folder.helper import NUMBER

seen = [NUMBER]
```

```python
def test_what_is_above():
    assert seen == [3]

async def test_in_virtual_time(autojump_clock):
    import trio
    await trio.sleep(1000)
    seen.append(4)
```

```sh
python -c 'print("hello")'     # a comment
cat folder/helper.py | head -1
NAME=x
export OTHER=y
cd folder && python -c "import os; print(os.path.basename(os.getcwd()), '$NAME$OTHER')"
```

```text
hello
# folder/...py
folder xy
```

```json
{"a": 1}
```

```text
a drawing, which nothing is compared with
```

<!-- not run: it needs a card -->
```sh
nvidia-smi
```
""")  # fmt: skip
    assert (tmp_path / "empty" / "folder" / "helper.py").read_text() == "# folder/helper.py\nNUMBER = 3\n"
    assert "folder.helper" not in sys.modules


def test_a_server_goes_on_beside_the_rest_and_is_seen_and_stopped(tmp_path):
    run(tmp_path, f"""
{MODEL}
```sh
reactor run model.py
```

```text
model will be ready at http://127.0.0.1:8080/ - its page shows the load
loading model ...
...
model is ready: http://127.0.0.1:8080/
```

```sh
reactor run model.py --port 8081
```

```sh
python -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8081/ready').status)"
```

```text
200
```
""")  # fmt: skip


@pytest.mark.parametrize(
    "text", ["a\nb c\nd", "a\n...", "...\nd", "a\n...\nb c\n...\nd\n...", "a\nb...\nd", "...a\n... c\n...d..."]
)
def test_a_text_is_what_the_commands_print(text, tmp_path):
    run(tmp_path, f"```sh\necho a\necho b c\necho d\n```\n\n```text\n{text}\n```")


@pytest.mark.parametrize("text", ["a\nd", "b...", "a...d", "a\n...\nc", "A\nb c\nd"])
def test_a_text_that_the_commands_do_not_print_fails(text, tmp_path):
    said = fails(tmp_path, f"```sh\necho a\necho b c\necho d\n```\n\n```text\n{text}\n```")
    assert said == "page.md:8: the commands at line 2 say:\na\nb c\nd\n"


def test_a_command_may_fail_with_the_error_that_the_page_shows(tmp_path):
    run(tmp_path, "```sh\nreactor schema\n```\n\n```text\nreactor: ...no such file...\n```")


def test_a_block_that_shows_a_model_is_a_cell(tmp_path):
    python = MODEL.replace("# model.py", "from reactor_trio import show")
    run(tmp_path, f"{python}\n```python\nfirst = show(Grey)\n```\n\n```python\nprint(first.url)\n```")
    assert "IPython" not in sys.modules


@pytest.mark.parametrize(("text", "said"), [
    ("```sh\nreactor schema\n```\n\n```text\nreactor: of another mistake\n```",
     "page.md:6: the commands at line 2 say:\nreactor: "),
    (MODEL.replace("# model.py", "from reactor_trio import show").replace("128", "nothing") + "```python\nshow(Grey)\n```",
     "page.md:19: the page of `show` shows nothing: SessionEnded: "),
    ("```python\nx = 1\nassert x == 2\n```", "page.md:3: AssertionError: "),
    ("```python\nx = 1\nx ==\n```", "page.md:3: SyntaxError: invalid syntax"),
    ("```python\n# model.py\nx ==\n```", "page.md:3: SyntaxError: invalid syntax"),
    ("```python\ndef f():\n    return 1 / 0\n```\n\n```python\nf()\n```", "page.md:3: ZeroDivisionError: division by zero"),
    ("```python\ndef test_a():\n    x = 1\n    assert x == 2\n```", "page.md:4: AssertionError: "),
    ("```sh\ntrue\nfalse\n```", "page.md:3: `false` ended with code 1:\n"),
    ("```sh\npython -c 'import sys; sys.exit(3)'\n```",
     "page.md:2: `python -c 'import sys; sys.exit(3)'` ended with code 3:\n"),
    ("```sh\nno-such-program\n```", "page.md:2: `no-such-program`: [Errno 2] No such file or directory: 'no-such-program'"),
    ("```sh\necho a | grep b\n```", "page.md:2: `bash -c 'echo a | grep b'` ended with code 1:\n"),
    ("```sh\npip install no-such-package-at-all\n```",
     "page.md:2: needs the network: no-such-package-at-all is not installed here"),
    ("```sh\necho a\n```\n\n```text\nb\n```", "page.md:6: the commands at line 2 say:\na\n"),
    ("```sh\necho a\n```\n\n```text\na\n...\nb\n```", "page.md:6: the commands at line 2 say:\na\n"),
    (MODEL + "```sh\nreactor run model.py\nls\n```", "page.md:20: `ls` waits for the server above; give "),
    ("```json\n{\n 1}\n```", "page.md:3: no JSON: Expecting property name enclosed in double quotes"),
    ("```yaml\na: 1\n b: [\n```", "page.md:3: no YAML: mapping values are not allowed here"),
    ("```toml\na =\n```", "page.md:2: no TOML: "),
    ("```js\nconst a = 1;\nconst = 2;\n```", "page.md:2: no JavaScript: SyntaxError: "),
    ("```html\n<p>\n<b>a</p>\n```", "page.md:3: </p> ends what is not open"),
    ("```html\n<p>\n```", "page.md:2: <p> does not end"),
    ("```html\n<p></p>\n<script>\nconst = 2;\n</script>\n```", "page.md:3: no JavaScript: SyntaxError: "),
    ("```yaml\n# reactor.yaml\nmodle: a:B\n```", "page.md:2: no manifest: "),
    ("```\ncode\n```", "page.md:1: a block says what it is, one of "),
    ("```pyhton\ncode\n```", "page.md:1: a block says what it is, one of "),
    ("<!-- not run: it needs a card -->\n\nA sentence.\n\n```sh\nfalse\n```", 'page.md:1: "not run" stands right above'),
    ("<!-- not run: it needs a card -->\n", 'page.md:1: "not run" stands right above'),
])  # fmt: skip
def test_a_block_that_is_wrong_fails_with_page_and_line(text, said, tmp_path):
    assert fails(tmp_path, text).startswith(said)


def test_a_server_that_shows_nothing_fails(tmp_path):
    broken = MODEL.replace("128", "nothing")
    line = broken.count("\n") + 2
    said = fails(tmp_path, f"{broken}```sh\nreactor run model.py\n```")
    assert said.startswith(f"page.md:{line}: `reactor run model.py` shows nothing: SessionEnded: ")
    assert "name 'nothing' is not defined" in said


def test_a_server_that_ends_by_itself_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\ntrue\nreactor run\n```\n")
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], text=True) as process:
        process.wait()
        with pytest.raises(BlockFailed, match=r"^page\.md:3: `reactor run` ended by itself with code 3:"):
            Server("reactor run", blocks_of(page)[0], 2, process, "http://127.0.0.1/", {}).stop()


def test_commands_are_lines_without_comments_and_prompts():
    text = "# first\n$ reactor init sky\n\nreactor run \\\n    --port 0   # a free one\nopen http://h/#token=a\n"
    assert list(commands(text)) == [
        (2, "reactor init sky"), (4, "reactor run --port 0"), (6, "open http://h/#token=a"),
    ]  # fmt: skip


def test_what_pip_would_find_installed():
    assert [installed(each) for each in ("numpy", "numpy<1", "reactor-trio[video]", "-U", "no-such-package")] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_blocks_have_the_lines_of_their_code(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n- item\n\n  ```sh\n  true\n  ```\n\n```python\n# a/b.py\n```\n")
    found = [(block.language, block.line, block.file) for block in blocks_of(page)]
    assert found == [("sh", 6, None), ("python", 10, "a/b.py")]


def test_a_page_goes_on_with_the_files_of_another(tmp_path):
    (tmp_path / "first.md").write_text("```python\n# a.py\nNAME = 1\n```\n\n```python\n# a.py\nNAME = 2\n```\n")
    (tmp_path / "second.md").write_text("<!-- files of first.md -->\n```python\n# b.py\nfrom a import NAME\n```\n")
    run(tmp_path, "<!-- files of second.md -->\n```sh\npython -c 'import b; print(b.NAME)'\n```\n\n```text\n2\n```\n")


def test_a_page_begins_where_the_commands_before_it_end(tmp_path):
    before = "<!-- before: mkdir sky -->\n<!-- before: cd sky -->\n"
    run(tmp_path, f"{before}```python\n# a.py\nprint(1)\n```\n\n```sh\npython a.py\n```\n\n```text\n1\n```\n")
    assert (tmp_path / "empty" / "sky" / "a.py").exists()


def test_a_command_before_a_page_that_fails_has_its_line(tmp_path):
    said = fails(tmp_path, "# A\n<!-- before: false -->\n```sh\ntrue\n```\n")
    assert said.startswith("page.md:2: `false` ended with code 1")


@pytest.mark.parametrize(("command", "said"), [
    ("scripts/test --all tests/docs/blocks -k init", None),
    ("scripts/soak --minutes 30   # long", None),
    ("scripts/bench gap --against /tmp/old/src", None),
    ("cd examples/gradient\nreactor render --script film.yaml --seconds 6 --out film.mp4", None),
    ("LONG=1 scripts/faults 3 && git archive COMMIT src | tar -x", None),
    ('pip install "reactor-trio[video]" torch', None),
    ("scripts/tset", "`scripts/tset`: no such script"),
    ("scripts/soak --hours 3", "it has no --hours"),
    ("scripts/bench gapp", "scripts/bench does not know gapp"),
    ("scripts/demo gradiant", "scripts/demo does not know gradiant"),
    ("scripts/test tests/doc", "no such path: tests/doc"),
    ("python -m benchmarks.tabels", "no such module"),
    ("cd examples/gradient\npython train.py", "no such file: train.py"),
    ("cd examples/gradient\nreactor render --script flim.yaml --out a.mp4", "no such file: flim.yaml"),
    ("cd examples/gradient\nreactor render --sceonds 6", "reactor does not understand it"),
    ("reactor run", "no such file: reactor.yaml"),
    ('pip install "reactor-trio[vidoe]"', "no such extra: vidoe"),
    ("docker build .", "not a program of the repository"),
])  # fmt: skip
def test_commands_of_the_repository_are_checked_and_not_run(command, said, tmp_path):
    text = f"<!-- in the repository -->\n```sh\n{command}\n```\n"
    if said is None:
        run(tmp_path, text)
    else:
        assert said in fails(tmp_path, text)


@pytest.mark.parametrize(("text", "said"), [
    ("runtime:\n  limits: {sesion_length: 3}", "page.md:2: no manifest: "),
    ("model: pipeline:Model\ntilte: Sky", "page.md:2: no manifest: "),
    ("runtime: {limits: {session_length: 3}}", None),
    ("model: pipeline:Model\nthumbnail: sky.webp", None),
    ("livenessProbe: {periodSeconds: 2}", None),
])  # fmt: skip
def test_a_part_of_a_manifest_is_read_as_one(text, said, tmp_path):
    if said is None:
        run(tmp_path, f"```yaml\n{text}\n```\n")
    else:
        assert fails(tmp_path, f"```yaml\n{text}\n```\n").startswith(said)


def test_kill_ends_a_server_as_ctrl_c_does(tmp_path):
    run(tmp_path, f"{MODEL}```sh\nreactor run model.py &\nkill %1\n```\n")
