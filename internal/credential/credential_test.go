package credential_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/credential"
)

func TestMint(t *testing.T) {
	t.Parallel()
	for _, plane := range []credential.Plane{credential.Member, credential.Executor} {
		bearer, hash := credential.Mint(plane)
		require.Regexp(t, `^tp_`+string(plane)+`_[A-Za-z0-9_-]{43}$`, bearer)
		found, ok := credential.Hash(plane, bearer)
		require.True(t, ok)
		require.Equal(t, hash, found)
		require.Len(t, hash, 32)
		require.NotContains(t, bearer, string(hash))

		another, _ := credential.Mint(plane)
		require.NotEqual(t, bearer, another)
	}
}

func TestHashRefuses(t *testing.T) {
	t.Parallel()
	bearer, _ := credential.Mint(credential.Member)
	secret := strings.TrimPrefix(bearer, "tp_member_")
	for name, text := range map[string]string{
		"nothing":            "",
		"the prefix alone":   "tp_member_",
		"the secret alone":   secret,
		"the other plane":    "tp_executor_" + secret,
		"another case":       "TP_MEMBER_" + secret,
		"a space before":     " " + bearer,
		"a space after":      bearer + " ",
		"padding":            bearer + "=",
		"one more character": bearer + "A",
		"one less":           bearer[:len(bearer)-1],
		"a line break":       bearer[:20] + "\n" + bearer[20:],
		"unused bits set":    "tp_member_" + strings.Repeat("A", 42) + "B",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ok := credential.Hash(credential.Member, text)
			require.False(t, ok)
		})
	}
}
