// Package schema holds the shapes of what is stored and sent: the database migrations, the OpenAPI
// document, and the JSON Schemas that strangers wrote, which it compiles and checks values against.
//
// It is the one door to the JSON Schema library. A schema is surveyed before the library sees it:
// its size and nesting, the shape of every keyword, where each reference points, how often one value
// would be visited. The library then gets a copy with only the keywords that decide, so annotations
// (format, contentEncoding, default) never refuse a value, and with each reference as a plain pointer.
// What a check would take is counted before it is made. Nothing here reads a file or the network.
//
// Dialects: draft 2020-12 unless $schema names draft 2019-09, 7, 6 or 4.
package schema

import (
	"encoding/json/jsontext"
	"fmt"

	jsonschema "github.com/kaptinlin/jsonschema"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Schema is a compiled JSON Schema. It does not change and may be used by many goroutines.
type Schema struct {
	compiled *jsonschema.Schema
	programs map[string]int // instructions by pattern, for the meter
	refAlone bool           // of the dialect, for the meter
}

// Compile reads a schema of at most toolpark.MaxSchema bytes and toolpark.MaxSchemaDepth levels. A
// schema that is wrong, that refers outside itself, or that would cost too much to apply is
// validation_failed, with the pointer inside the schema, the keyword and the repair.
func Compile(document jsontext.Value) (*Schema, error) {
	s, _, err := compile(document)
	return s, err
}

// CompileObject is [Compile] for a schema whose values are objects: a tool's input or output. Its
// root must say so, by "type": "object", by properties without a type, or by what it refers to.
func CompileObject(document jsontext.Value) (*Schema, error) {
	s, root, err := compile(document)
	if err != nil {
		return nil, err
	}
	if !root.describesObject() {
		return nil, refuse("", `the root must describe an object; give it "type": "object"`)
	}
	return s, nil
}

func compile(document jsontext.Value) (*Schema, *position, error) {
	if len(document) > toolpark.MaxSchema {
		return nil, nil, refuse("", "it has %d bytes; at most %d are allowed", len(document), toolpark.MaxSchema)
	}
	if p := strictjson.ValueWithin(document, toolpark.MaxSchemaDepth); p != nil {
		return nil, nil, refuse(p.Pointer, "%s", p.Reason)
	}
	survey, err := newSurvey(document)
	if err != nil {
		return nil, nil, err
	}
	root, decisive, err := survey.run(document)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := compileDecisive(decisive, survey.dialect)
	if err != nil {
		return nil, nil, refuse("", "it does not compile: %s", strictjson.CutString(err.Error(), maxReason))
	}
	return &Schema{compiled: compiled, programs: survey.programs, refAlone: survey.dialect.refAlone}, root, nil
}

// compileDecisive hands the surveyed copy to a library compiler of its own, without the loaders that
// would fetch what a reference names.
func compileDecisive(decisive jsontext.Value, d *dialect) (s *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the schema library gave up: %v", r)
		}
	}()
	compiler := jsonschema.NewCompiler().SetDefaultDialect(d.uri)
	clear(compiler.Loaders)
	return compiler.Compile(decisive)
}

// refuse makes the error for a place in the schema.
func refuse(pointer, format string, args ...any) *toolpark.Error {
	place := pointer
	if place == "" {
		place = "its root"
	}
	return toolpark.Errorf(toolpark.CodeValidationFailed, "The JSON Schema cannot be used: at %s, %s.",
		strictjson.CutString(place, maxReason), fmt.Sprintf(format, args...)).At(pointer)
}
