package approval_test

import (
	"encoding/json/jsontext"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/approval"
)

// rules reads a list of rules that is good.
func rules(t testing.TB, list string) []approval.Rule {
	t.Helper()
	parsed, err := approval.ParseRules(jsontext.Value(list), "/configuration/approval_rules")
	require.NoError(t, err)
	return parsed
}
