# Sourced by the scripts beside it: finds a Python, makes the virtual environment, installs into it.
# PYTHON names the interpreter to use, REACTOR_VENV the folder of the environment (default: .venv).

# Images of containers set this, and then each process that a test starts compiles all modules anew.
unset PYTHONDONTWRITEBYTECODE
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${REACTOR_VENV:-$root/.venv}

stop() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

find_python() {
    local candidate without_venv=
    # 3.11 first: some package indexes have the CPU build of torch, which the tests need, for it alone.
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || continue
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        without_venv=$candidate
    done
    [ -z "$without_venv" ] ||
        stop "$without_venv cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"
    stop "needs Python 3.11 to 3.13, found none${PYTHON:+ in PYTHON=$PYTHON}; install one or name it: PYTHON=/path/to/python $0"
}

# install_package demo | test | test-all | web | docs ...: the package itself in editable form, for the demo with the codecs between
# frames, for `test` with what most tests need, for `test-all` with all that any test or check needs, for `web` with Node, for
# `docs` with what makes the site.
install_package() {
    local python name mark marks missing=()
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        echo "making $venv with $python"
        "$python" -m venv --clear "$venv"
    fi
    mark=$(cksum <"$root/pyproject.toml")
    for name in "$@"; do
        case $name in # which installations include it
            demo) marks=("$venv"/installed-{demo,test,test-all}) ;;
            test | docs) marks=("$venv"/installed-{"$name",test-all}) ;;
            *) marks=("$venv/installed-$name") ;;
        esac
        grep -qxsF "$mark" "${marks[@]}" || missing+=("${name/#demo/video}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing reactor-trio for $*"
    pip_install --editable "$root[$(IFS=, && echo "${missing[*]}")]"
    for name in "$@"; do echo "$mark" >"$venv/installed-$name"; done
}

# pip_install ARGUMENTS: `pip install`, by uv, which installs the same in a quarter of the time. Where uv is not to be had, or
# does not know what pip is configured with, pip does it.
pip_install() {
    local settings pip=("$venv/bin/python" -m pip --disable-pip-version-check)
    if [ -x "$venv/bin/uv" ] || "${pip[@]}" install --quiet uv 2>/dev/null; then
        settings=$("${pip[@]}" config list | uv_settings)
        (eval "$settings" && exec "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@") && return
        echo "uv could not install it; now by pip"
    fi
    "${pip[@]}" install --quiet "$@"
}

# Says, as commands of this shell, what `pip config list` lists as settings of uv. pip takes the best of all indexes.
uv_settings() {
    echo "export UV_INDEX_STRATEGY=unsafe-best-match"
    "$venv/bin/python" -c '
import ast, shlex, sys
NAMES = {
    "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT", "cert": "SSL_CERT_FILE", "trusted-host": "UV_INSECURE_HOST",
}
given = dict(line.split("=", 1) for line in sys.stdin.read().splitlines())
for section in ("global", "install", ":env:"):  # the last one counts
    for setting, name in NAMES.items():
        if f"{section}.{setting}" in given:
            between = "," if setting == "find-links" else " "
            value = between.join(ast.literal_eval(given[f"{section}.{setting}"]).split())
            print(f"export {name}={shlex.quote(value)}")
'
}

# install_requirements FILE: what an example needs beside the package; again only after the file has changed.
install_requirements() {
    local mark done=$venv/installed-example-$(basename "$(dirname "$1")")
    mark=$(cksum <"$1")
    [ "$(cat "$done" 2>/dev/null)" != "$mark" ] || return 0
    echo "installing what examples/$(basename "$(dirname "$1")") needs: $(paste -sd ' ' "$1")"
    ! grep -q torch "$1" || "$venv/bin/python" -c 'import torch' 2>/dev/null ||
        echo "torch brings some gigabytes of CUDA; without a card stop here and run first:" \
            "$venv/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu"
    pip_install --requirement "$1"
    echo "$mark" >"$done"
}

# need_program PACKAGE COMMAND...: one of the commands must exist; as root the system's package manager brings it.
need_program() {
    local package=$1 install
    shift
    has_program "$@" && return
    if command -v apt-get >/dev/null; then install="apt-get install -y --no-install-recommends $package"
    elif command -v dnf >/dev/null; then install="dnf install -y $package"
    elif command -v apk >/dev/null; then install="apk add $package"
    elif command -v pacman >/dev/null; then install="pacman -S --noconfirm $package"
    elif command -v zypper >/dev/null; then install="zypper --non-interactive install $package"
    else stop "needs $package, and this system's package manager is unknown; install $package and run again"
    fi
    [ "$(id -u)" = 0 ] || stop "needs $package; install it and run again: sudo $install"
    echo "installing $package"
    case $install in apt-get*) apt-get update -qq ;; esac
    DEBIAN_FRONTEND=noninteractive $install >/dev/null || stop "could not install $package: $install"
    has_program "$@" || stop "$install brought none of: $*"
}

has_program() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null && return
    done
    return 1
}

# side_by_side COMMAND...: run the commands at the same time. What each of them prints appears when it has ended, in their order.
side_by_side() {
    local command i printed pids=() failed=()
    printf 'beginning: %s\n' "$@"
    printed=$(mktemp -d)
    for command in "$@"; do
        (eval "$command") >"$printed/${#pids[@]}" 2>&1 &
        pids+=($!)
    done
    trap 'kill "${pids[@]}" 2>/dev/null; exit 130' INT # bash lets what runs in the background ignore this signal
    for i in "${!pids[@]}"; do
        wait "${pids[i]}" || failed+=("${@:i+1:1}")
        cat "$printed/$i"
    done
    trap - INT
    rm -r "$printed"
    [ ${#failed[@]} -eq 0 ] || stop "failed: ${failed[*]}"
}
