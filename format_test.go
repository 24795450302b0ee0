package toolpark_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

func TestAnUnknownFormatIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "openai", "Anthropic"} {
		_, err := toolpark.ParseFormat(name)
		var e *toolpark.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, toolpark.CodeParameterInvalid, e.Code)
	}
}
