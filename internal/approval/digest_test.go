package approval_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/strictjson"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	document := `{"tool_name":"files/read \"x\" é","target":"runner:1\n","input":{"b":[1.0,{}],"a":"\u0041"}}`
	canonical, err := strictjson.Canonical(jsontext.Value(document))
	require.NoError(t, err)
	sum := sha256.Sum256(canonical)
	digest := approval.Digest(jsontext.Value(`{"b":[1.0,{}],"a":"\u0041"}`), "runner:1\n", `files/read "x" é`)
	require.Equal(t, hex.EncodeToString(sum[:]), digest)
	require.Equal(t, digest, approval.Digest(jsontext.Value(` { "a" : "A" , "b" : [ 1.0, { } ] } `), "runner:1\n", `files/read "x" é`), "spelling does not show")

	seen := map[string]int{}
	for i, other := range []string{
		approval.Digest(jsontext.Value(`{"a":1}`), "x", "y"),
		approval.Digest(jsontext.Value(`{"a":1.0}`), "x", "y"),
		approval.Digest(jsontext.Value(`{"a":"1"}`), "x", "y"),
		approval.Digest(jsontext.Value(`{}`), "x", "y"),
		approval.Digest(nil, "x", "y"),
		approval.Digest(jsontext.Value(`{"a":1}`), "y", "x"),
		approval.Digest(jsontext.Value(`{"a":1}`), "x\",\"y", ""),
		approval.Digest(jsontext.Value(`{"a":1}`), "", "xy"),
		approval.Digest(jsontext.Value(`{"a":1,"a":2}`), "x", "y"),
		approval.Digest(jsontext.Value(`{"a":1,"a":3}`), "x", "y"),
	} {
		require.Regexp(t, `^[0-9a-f]{64}$`, other)
		require.NotContains(t, seen, other, "%d", i)
		seen[other] = i
	}
}
