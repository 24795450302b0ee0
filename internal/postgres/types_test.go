package postgres_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
)

func TestTypesRoundTrip(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	id, other := uuid.NewV7(), uuid.UUID{}

	t.Run("a UUID, null, and arrays of them", func(t *testing.T) {
		var one uuid.UUID
		var some, none *uuid.UUID
		var list, empty []uuid.UUID
		var text string
		require.NoError(t, db.Pool.QueryRow(t.Context(),
			`SELECT $1::uuid, $2::uuid, $3::uuid, $4::uuid[], $5::uuid[], $1::uuid::text`,
			id, &id, (*uuid.UUID)(nil), []uuid.UUID{id, other}, []uuid.UUID{}).
			Scan(&one, &some, &none, &list, &empty, &text))
		require.Equal(t, id, one)
		require.Equal(t, &id, some)
		require.Nil(t, none)
		require.Equal(t, []uuid.UUID{id, other}, list)
		require.Empty(t, empty)
		require.Equal(t, id.String(), text)
	})

	t.Run("NULL into a UUID is an error, not the zero UUID", func(t *testing.T) {
		var one uuid.UUID
		require.Error(t, db.Pool.QueryRow(t.Context(), `SELECT NULL::uuid`).Scan(&one))
	})

	t.Run("json keeps every byte", func(t *testing.T) {
		for _, text := range []string{
			`{ "b": 1.0,  "a": 12345678901234567890, "b": "<&>\u00e9é" }`, `null`, `"x"`, ` 1e400 `,
		} {
			var back jsontext.Value
			require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::json`, jsontext.Value(text)).Scan(&back))
			require.Equal(t, text, string(back))
		}
	})

	t.Run("nil json is NULL", func(t *testing.T) {
		var null bool
		back := jsontext.Value("left over")
		require.NoError(t, db.Pool.QueryRow(t.Context(),
			`SELECT $1::json IS NULL, NULL::json`, jsontext.Value(nil)).Scan(&null, &back))
		require.True(t, null)
		require.Nil(t, back)
	})

	t.Run("arrays of json keep order and nulls", func(t *testing.T) {
		list := []jsontext.Value{jsontext.Value(`{"a": "q\"\\,}"}`), nil, jsontext.Value(`[1, 2]`)}
		var back []jsontext.Value
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::json[]`, list).Scan(&back))
		require.Equal(t, list, back)
	})

	t.Run("times are in UTC", func(t *testing.T) {
		var at time.Time
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT timestamptz '2026-01-02 03:04:05+07'`).Scan(&at))
		require.Equal(t, "2026-01-01T20:04:05Z", at.Format(time.RFC3339))
	})
}
