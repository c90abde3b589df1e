#!/bin/sh
# Types the commands that the page of an example shows, in its folder: sh examples/run.sh shop
set -eu
cd "$(dirname "$0")/$1"
sed -n 's/^\$ //p' README.md | sh -ev
