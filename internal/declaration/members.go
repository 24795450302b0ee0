package declaration

import "encoding/json/jsontext"

// members is a JSON object whose members keep their order.
type members []member

type member struct {
	name  string
	value jsontext.Value
}

// MarshalJSONTo writes the object.
func (m members) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, each := range m {
		if err := enc.WriteToken(jsontext.String(each.name)); err != nil {
			return err
		}
		if err := enc.WriteValue(each.value); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

// UnmarshalJSONFrom reads an object.
func (m *members) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		each := member{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		each.value = value.Clone()
		*m = append(*m, each)
	}
	_, err := dec.ReadToken()
	return err
}
