package schema

import (
	"bytes"
	stdjson "encoding/json"
	"encoding/json/jsontext"
	"fmt"

	jsonschema "github.com/kaptinlin/jsonschema"
)

// Complaint is one reason why a value does not match its schema.
type Complaint struct {
	Pointer string `json:"pointer"` // RFC 6901, into the value; "" is the whole of it
	Reason  string `json:"reason"`  // at most 256 bytes
}

// Check returns why the instance does not match, or nothing when it does: the innermost reasons
// only, ordered by pointer, at most toolpark.MaxSchemaComplaints. The same value gets the same
// complaints every time.
//
// The instance must have passed strictjson.Value, which bounds its nesting and its numbers. Numbers
// are compared exactly. A value whose check would take too long is a complaint, never a long wait.
func (s *Schema) Check(instance jsontext.Value) []Complaint {
	return s.CheckWithin(instance, NewBudget())
}

// CheckWithin is [Schema.Check] as one of several checks that share a budget.
func (s *Schema) CheckWithin(instance jsontext.Value, budget *Budget) []Complaint {
	value, err := decode(instance)
	if err != nil {
		return []Complaint{{Reason: "the value is not JSON"}}
	}
	allowed := budget.allowance(len(instance))
	m := meter{programs: s.programs, refAlone: s.refAlone, left: allowed}
	m.apply(s.compiled, value)
	if m.stopped() {
		budget.take(allowed / 8) // counting is cheaper than checking, but not free
		return []Complaint{{Reason: "checking this value takes too many steps; send a smaller or flatter one"}}
	}
	budget.take(allowed - m.left)
	result, err := s.evaluate(value)
	if err != nil {
		return []Complaint{{Reason: "the schema cannot be applied to this value"}}
	}
	if result.IsValid() {
		return nil
	}
	return complaints(result, value)
}

// evaluate turns a panic of the library into an error: a value it cannot judge does not match.
func (s *Schema) evaluate(value any) (result *jsonschema.EvaluationResult, err error) {
	defer func() {
		if r := recover(); r != nil {
			result, err = nil, fmt.Errorf("the schema library gave up: %v", r)
		}
	}()
	return s.compiled.ValidateStruct(value), nil
}

// decode reads a value with every digit kept, as the library's own decoder does.
func decode(instance jsontext.Value) (any, error) {
	dec := stdjson.NewDecoder(bytes.NewReader(instance))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	return value, err
}
