package envelope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	results := []envelope.Result{
		{CallID: "c1", Text: `said "hi" <b>`},
		{CallID: "c2", Text: "no such file", IsError: true},
		{CallID: "c3", IsError: true},
		{CallID: "c4"},
		{CallID: "c5", Text: "not read", Failure: &toolpark.TaskError{Key: toolpark.ErrToolTimeout}},
	}
	for _, tc := range []struct {
		format toolpark.Format
		want   string
	}{
		{toolpark.FormatChatCompletions, `[
			{"role":"tool","tool_call_id":"c1","content":"said \"hi\" <b>"},
			{"role":"tool","tool_call_id":"c2","content":"The tool reported an error:\nno such file"},
			{"role":"tool","tool_call_id":"c3","content":"The tool reported an error and gave no reason."},
			{"role":"tool","tool_call_id":"c4","content":""},
			{"role":"tool","tool_call_id":"c5","content":"The tool gave no answer in time; you may call it again, or go on without it. (tool_timeout)"}
		]`},
		{toolpark.FormatResponses, `[
			{"type":"function_call_output","call_id":"c1","output":"said \"hi\" <b>"},
			{"type":"function_call_output","call_id":"c2","output":"The tool reported an error:\nno such file"},
			{"type":"function_call_output","call_id":"c3","output":"The tool reported an error and gave no reason."},
			{"type":"function_call_output","call_id":"c4","output":""},
			{"type":"function_call_output","call_id":"c5","output":"The tool gave no answer in time; you may call it again, or go on without it. (tool_timeout)"}
		]`},
		{toolpark.FormatAnthropic, `[{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"c1","content":"said \"hi\" <b>"},
			{"type":"tool_result","tool_use_id":"c2","content":"no such file","is_error":true},
			{"type":"tool_result","tool_use_id":"c3","content":"The tool reported an error and gave no reason.","is_error":true},
			{"type":"tool_result","tool_use_id":"c4"},
			{"type":"tool_result","tool_use_id":"c5","content":"The tool gave no answer in time; you may call it again, or go on without it. (tool_timeout)","is_error":true}
		]}]`},
	} {
		t.Run(string(tc.format), func(t *testing.T) {
			t.Parallel()
			format, err := toolpark.ParseFormat(string(tc.format))
			require.NoError(t, err)
			messages, err := envelope.Messages(format, results)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(messages))
			again, err := envelope.Messages(format, results)
			require.NoError(t, err)
			require.Equal(t, messages, again, "the same results render the same bytes")

			none, err := envelope.Messages(format, nil)
			require.NoError(t, err)
			require.Equal(t, `[]`, string(none))
		})
	}
}
