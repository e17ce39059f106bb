#!/usr/bin/env python3
"""validate.py SCHEMA FILE: the file, one JSON value after the other, is what the schema says. Needs jsonschema."""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

with open(sys.argv[1]) as file:
    schema = json.load(file)
with open(sys.argv[2]) as file:
    text = file.read().strip()
count = 0
while text:
    value, end = json.JSONDecoder().raw_decode(text)
    text = text[end:].lstrip()
    jsonschema.validate(value, schema)
    count += 1
print(count)
