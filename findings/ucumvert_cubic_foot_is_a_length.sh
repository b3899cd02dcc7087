#!/bin/sh
# Version: ucumvert 0.3.2 with pint 0.25.3
# Source: UCUM's own table, which the package ships as vendor/ucum-essence.xml: [cft_i] is a cubic foot, ' a minute of an
#   angle, [Cal] of nutrition labels a kilocalorie, and [rd_br] a rod of 16.5 feet.
# Behaviour: the codes are read, and the units are others of pint: a hundredth of a foot, a minute of time, a calorie, and
#   a twelfth of a rod. Nothing warns; a conversion to the right dimension fails later, or is wrong by 1000.
# Output seen:
#   [cft_i] is centifoot, [length]
#   ' is minute, [time]
#   [Cal] is 0.001 kcal
#   [rd_br] is 1.375 [ft_br]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ucumvert==0.3.2 pint==0.25.3
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.resources import files
from xml.etree import ElementTree

from ucumvert import PintUcumRegistry

table = ElementTree.fromstring(files("ucumvert").joinpath("vendor/ucum-essence.xml").read_bytes())
space = table.tag[: table.tag.index("}") + 1]
codes = {unit.get("Code"): unit.find(space + "value") for unit in table.iter(space + "unit")}
definitions = {code: (codes[code].get("value"), codes[code].get("Unit")) for code in ("[cft_i]", "'", "[Cal]", "[rd_br]")}
assert definitions == {
    "[cft_i]": ("1", "[ft_i]3"),
    "'": ("1", "deg/60"),
    "[Cal]": ("1", "kcal_th"),
    "[rd_br]": ("16.5", "[ft_br]"),
}
units = PintUcumRegistry()
for code, name, dimension in (("[cft_i]", "centifoot", "[length]"), ("'", "minute", "[time]")):
    unit = units.from_ucum(code)
    print(code, "is", f"{unit.units}, {unit.dimensionality}")
    assert (str(unit.units), str(unit.dimensionality)) == (name, dimension)
for code, other, ratio in (("[Cal]", "kcal", 0.001), ("[rd_br]", "[ft_br]", 1.375)):
    seen = units.from_ucum(code).to(units.from_ucum(other).units).magnitude
    print(code, "is", round(seen, 6), other)
    assert round(seen, 6) == ratio
PYTHON
