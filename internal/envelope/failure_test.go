package envelope_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
)

// failureKeys are all the reasons a task may fail for.
var failureKeys = []string{
	toolpark.ErrUnknownTool,
	toolpark.ErrInvalidToolArguments,
	toolpark.ErrToolInputTooLarge,
	toolpark.ErrInvalidToolInput,
	toolpark.ErrToolNotServed,
	toolpark.ErrRunnerNotEligible,
	toolpark.ErrApprovalDenied,
	toolpark.ErrToolFailed,
	toolpark.ErrToolTimeout,
	toolpark.ErrToolUncertain,
	toolpark.ErrTaskCanceled,
	toolpark.ErrResultUnstorable,
	toolpark.ErrOutputSchemaMismatch,
	toolpark.ErrWorkflowTerminated,
}

func TestEveryFailureHasASentenceOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range failureKeys {
		text := envelope.Failure(toolpark.TaskError{Key: key})
		sentence, reason, _ := strings.Cut(text, " (")
		require.Equal(t, key+")", reason)
		require.Empty(t, seen[sentence], "said for two keys")
		seen[sentence] = key
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	const timeout = "The tool gave no answer in time; you may call it again, or go on without it."
	const other = "This call did not complete, and its effects may have happened."
	for _, tc := range []struct {
		name string
		err  toolpark.TaskError
		want string
	}{
		{"a key alone", toolpark.TaskError{Key: toolpark.ErrToolTimeout}, timeout + " (tool_timeout)"},
		{"a detail", toolpark.TaskError{Key: toolpark.ErrToolTimeout, Detail: "after 5 s"}, timeout + " (tool_timeout: after 5 s)"},
		{"a blank detail", toolpark.TaskError{Key: toolpark.ErrToolTimeout, Detail: " \n"}, timeout + " (tool_timeout)"},
		{"an unknown key", toolpark.TaskError{Key: "new_reason", Detail: "x"}, other + " (new_reason: x)"},
		{"nothing at all", toolpark.TaskError{}, other},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, envelope.Failure(tc.err))
		})
	}
}

func TestALongDetailIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		text := envelope.Failure(toolpark.TaskError{
			Key: toolpark.ErrToolFailed, Detail: strings.Repeat("x", shift) + strings.Repeat("😀", 100<<10),
		})
		require.Less(t, len(text), 9<<10)
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\uFFFD")
	}
}
