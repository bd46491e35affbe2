# Sourced by the scripts beside this directory, after they have set ROOT to the project's directory.
# POSIX sh: it must run where nothing is prepared. Everything it says goes to standard error.

VENV=$ROOT/.venv

say() { printf 'idkmesh: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Prints the newest Python that is new enough and runs the statement $1; fails without one. A name on PATH proves nothing:
# version managers leave shims for versions that are not there.
find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        for directory in "" /usr/local/bin/ /usr/bin/; do
            if "$directory$name" -c "import sys; sys.version_info >= (3, 11) or sys.exit(1); $1" >/dev/null 2>&1; then
                printf '%s\n' "$directory$name"
                return 0
            fi
        done
    done
    return 1
}

can_install_packages() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Installs the Debian packages that are its arguments, quietly; fails if that does not work.
install_packages() {
    say "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    if ! log=$({ apt-get update && apt-get install --yes --no-install-recommends "$@"; } 2>&1); then
        say "apt-get failed: $(printf '%s\n' "$log" | tail -n 1)"
        return 1
    fi
}

choose_python() {
    PYTHON=$(find_python 'import venv, ensurepip') && return 0
    bare=$(find_python '') || fail "no Python 3.11 or newer found: install python3.11, python3.12 or python3.13"
    package=$("$bare" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if can_install_packages && install_packages "$package"; then
        PYTHON=$(find_python 'import venv, ensurepip') && return 0
    fi
    fail "$bare cannot make virtual environments: install its venv module (on Debian: apt-get install $package)"
}

venv_works() { "$VENV/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# What an installation depends on. The path is part of it: the programs in a virtual environment name it.
wanted_state() { printf '%s %s\n' "$(cksum <"$ROOT/pyproject.toml")" "$ROOT"; }

# installed EXTRAS: the environment is there and was set up with these extras for this pyproject.toml.
installed() {
    [ -x "$VENV/bin/python" ] && [ -x "$VENV/bin/idkmesh" ] && [ -f "$VENV/installed-$1" ] &&
        [ "$(cat "$VENV/installed-$1")" = "$(wanted_state)" ]
}

# set_up EXTRAS: have the project in .venv, editable, with the extras (comma separated, or none).
set_up() {
    installed "$1" && return 0
    if ! venv_works; then
        choose_python
        say "setting up $VENV with $("$PYTHON" -V) (once)"
        rm -rf "$VENV"
        "$PYTHON" -m venv "$VENV" || fail "could not create $VENV: see the message above"
    else
        say "adding to $VENV what this needs"
    fi
    "$VENV/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --editable "$ROOT${1:+[$1]}" ||
        fail "could not install into $VENV: see the message above, then run this again"
    wanted_state >"$VENV/installed-$1"
}
