package postgres

import (
	"encoding/json/jsontext"
	"fmt"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes teaches a connection the types that the rest of the code uses: uuid.UUID for uuid,
// jsontext.Value for json (its bytes as they are, nil for NULL), and times in UTC.
func registerTypes(m *pgtype.Map) {
	json := &pgtype.Type{Name: "json", OID: pgtype.JSONOID, Codec: newJSONCodec(m)}
	m.RegisterType(json)
	m.RegisterType(&pgtype.Type{Name: "_json", OID: pgtype.JSONArrayOID, Codec: &pgtype.ArrayCodec{ElementType: json}})

	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})

	stamp := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	}
	m.RegisterType(stamp)
	m.RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: stamp},
	})
}

// uuidCodec reads and writes uuid.UUID without a detour over its text. The zero UUID is a value
// like any other; NULL is a nil *uuid.UUID.
type uuidCodec struct{ pgtype.UUIDCodec }

func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return encodeUUID{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type encodeUUID struct{}

func (encodeUUID) Encode(value any, buf []byte) ([]byte, error) {
	id := value.(uuid.UUID)
	return append(buf, id[:]...), nil
}

type scanUUID struct{}

func (scanUUID) Scan(src []byte, target any) error {
	if len(src) != len(uuid.UUID{}) {
		return fmt.Errorf("cannot scan %d bytes into a UUID; NULL needs a *uuid.UUID", len(src))
	}
	copy(target.(*uuid.UUID)[:], src)
	return nil
}

// jsonCodec passes jsontext.Value through untouched: pgx would send it through encoding/json, which
// checks it a second time, escapes it for HTML and drops its white space.
type jsonCodec struct{ *pgtype.JSONCodec }

func newJSONCodec(m *pgtype.Map) jsonCodec {
	t, _ := m.TypeForOID(pgtype.JSONOID)
	return jsonCodec{t.Codec.(*pgtype.JSONCodec)}
}

func (c jsonCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(jsontext.Value); ok {
		return encodeJSON{}
	}
	return c.JSONCodec.PlanEncode(m, oid, format, value)
}

func (c jsonCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*jsontext.Value); ok {
		return scanJSON{}
	}
	return c.JSONCodec.PlanScan(m, oid, format, target)
}

type encodeJSON struct{}

func (encodeJSON) Encode(value any, buf []byte) ([]byte, error) {
	text := value.(jsontext.Value)
	if text == nil {
		return nil, nil
	}
	return append(buf, text...), nil
}

type scanJSON struct{}

func (scanJSON) Scan(src []byte, target any) error {
	value := target.(*jsontext.Value)
	if src == nil {
		*value = nil
		return nil
	}
	*value = append(make(jsontext.Value, 0, len(src)), src...)
	return nil
}
