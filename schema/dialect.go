package schema

import (
	"maps"
	"strings"

	jsonschema "github.com/kaptinlin/jsonschema"
)

// dialect is one draft of JSON Schema: which keywords it knows and how it reads references.
type dialect struct {
	uri      jsonschema.Dialect
	keywords map[string]keyword
	id       string // the keyword that names a resource
	refAlone bool   // $ref hides the keywords beside it
	anchorID bool   // "$id": "#name" is an anchor
}

// keyword is what one keyword may hold and what it means for a survey.
type keyword struct {
	shape   shape
	inPlace bool // its schemas apply to the same value, not to a part of it
	decides bool // it can refuse a value, or leads to what can: it is copied for the library
}

func note(s shape) keyword { return keyword{shape: s} }
func rule(s shape) keyword { return keyword{shape: s, decides: true} }
func here(s shape) keyword { return keyword{shape: s, decides: true, inPlace: true} }

var draft4 = dialect{
	uri: jsonschema.Draft4, id: "id", refAlone: true, anchorID: true,
	keywords: map[string]keyword{
		"id": note(text), "$schema": note(text), "$ref": here(reference),
		"title": note(text), "description": note(text), "default": note(anything), "format": note(text),
		"definitions": rule(schemaMap), "$defs": rule(schemaMap),
		"type": rule(typeNames), "enum": rule(enumeration),
		"multipleOf": rule(positive), "maximum": rule(number), "minimum": rule(number),
		"exclusiveMaximum": rule(boolean), "exclusiveMinimum": rule(boolean),
		"maxLength": rule(count), "minLength": rule(count), "pattern": rule(pattern),
		"items": rule(schemaOrList), "additionalItems": rule(schemaShape),
		"maxItems": rule(count), "minItems": rule(count), "uniqueItems": rule(boolean),
		"maxProperties": rule(count), "minProperties": rule(count), "required": rule(names),
		"properties": rule(schemaMap), "patternProperties": rule(patternMap), "additionalProperties": rule(schemaShape),
		"dependencies": here(dependencies),
		"allOf":        here(schemaList), "anyOf": here(schemaList), "oneOf": here(schemaList), "not": here(schemaShape),
	},
}

var draft6 = draft4.next(jsonschema.Draft6, map[string]keyword{
	"$id": note(text), "const": rule(anything), "contains": rule(schemaShape), "propertyNames": rule(schemaShape),
	"examples": note(array), "exclusiveMaximum": rule(number), "exclusiveMinimum": rule(number),
}, "id")

var draft7 = draft6.next(jsonschema.Draft7, map[string]keyword{
	"if": here(schemaShape), "then": here(schemaShape), "else": here(schemaShape),
	"$comment": note(text), "readOnly": note(boolean), "writeOnly": note(boolean),
	"contentEncoding": note(text), "contentMediaType": note(text),
})

var draft201909 = draft7.next(jsonschema.Draft201909, map[string]keyword{
	"$anchor": note(anchor), "$recursiveRef": here(reference), "$recursiveAnchor": note(boolean), "$vocabulary": note(booleanMap),
	"dependentSchemas": here(schemaMap), "dependentRequired": rule(nameLists),
	"unevaluatedItems": rule(schemaShape), "unevaluatedProperties": rule(schemaShape),
	"minContains": rule(count), "maxContains": rule(count),
	"contentSchema": note(schemaShape), "deprecated": note(boolean),
}) // "dependencies" is gone by its letter; the metaschemas still describe it, and authors still mean it

var draft202012 = draft201909.next(jsonschema.Draft202012, map[string]keyword{
	"prefixItems": rule(schemaList), "items": rule(schemaShape),
	"$dynamicRef": here(reference), "$dynamicAnchor": note(anchor),
}, "additionalItems", "$recursiveRef", "$recursiveAnchor")

// next is the dialect that followed d: with some keywords added or changed, and some gone.
func (d dialect) next(uri jsonschema.Dialect, changed map[string]keyword, gone ...string) dialect {
	n := dialect{uri: uri, id: "$id", keywords: maps.Clone(d.keywords)}
	maps.Copy(n.keywords, changed)
	for _, k := range gone {
		delete(n.keywords, k)
	}
	// Since 2019-09 a $ref has neighbours, and anchors have a keyword of their own.
	_, modern := n.keywords["$anchor"]
	n.refAlone, n.anchorID = !modern, !modern
	return n
}

// dialectNamed finds the dialect that a $schema names, with or without its empty fragment.
func dialectNamed(uri string) (*dialect, bool) {
	plain := func(uri string) string {
		_, rest, _ := strings.Cut(strings.TrimSuffix(uri, "#"), "://")
		return rest
	}
	if !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		return nil, false
	}
	for _, d := range []*dialect{&draft202012, &draft201909, &draft7, &draft6, &draft4} {
		if plain(uri) == plain(string(d.uri)) {
			return d, true
		}
	}
	return nil, false
}
