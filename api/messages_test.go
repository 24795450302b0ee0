package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	refs := s.calls(run,
		agent.Call{ID: "c1", Name: "look"}, agent.Call{ID: "c2", Name: "look", Arguments: `{"n":`}, agent.Call{ID: "c3", Name: "look"},
		agent.Call{ID: "c4", Name: "look"}, agent.Call{ID: "c5", Name: "look"}, agent.Call{ID: "c6", Name: "look"})
	s.report(refs[0], s.claim(refs[0]), `"content":"it ran","structured_content":{"never":"read"},"title":"nor this"`).ok(http.StatusOK)
	s.report(refs[2], s.claim(refs[2]), `"content":"no such file","is_error":true`).ok(http.StatusOK)
	s.report(refs[3], s.claim(refs[3]), `"is_error":true`).ok(http.StatusOK)
	s.report(refs[4], s.claim(refs[4]), ``).ok(http.StatusOK)
	s.asAgent("POST", taskPath(refs[5])+"/cancel", "").ok(http.StatusOK)
	read := func(format string) answer {
		t.Helper()
		return s.asAgent("GET", "/runs/"+run+"/rounds/1/messages?accept_media=image,pdf&format="+format, "").ok(http.StatusOK)
	}
	ids := []string{"c1", "c2", "c3", "c4", "c5", "c6"}

	chat, responses, claude := read("chat_completions"), read("responses"), read("anthropic")
	require.Equal(t, "user", claude.text("/messages/0/role"))
	require.Nil(t, claude.raw("/messages/1"))
	for i, id := range ids {
		at := "/messages/" + string(rune('0'+i))
		block := "/messages/0/content/" + string(rune('0'+i))
		require.Equal(t, "tool", chat.text(at+"/role"))
		require.Equal(t, id, chat.text(at+"/tool_call_id"))
		require.Equal(t, "function_call_output", responses.text(at+"/type"))
		require.Equal(t, id, responses.text(at+"/call_id"))
		require.Equal(t, "tool_result", claude.text(block+"/type"))
		require.Equal(t, id, claude.text(block+"/tool_use_id"))

		said, marked := chat.text(at+"/content"), string(claude.raw(block+"/is_error")) == "true"
		require.Equal(t, said, responses.text(at+"/output"))
		switch id {
		case "c1":
			require.Equal(t, "it ran", said)
		case "c2":
			require.Contains(t, said, "invalid_tool_arguments")
		case "c3":
			require.Contains(t, said, "no such file")
			require.NotEqual(t, "no such file", said, "marked where the wire has no mark of its own")
			require.Equal(t, "no such file", claude.text(block+"/content"))
		case "c4":
			require.NotEmpty(t, said, "an error is never silent")
		case "c5":
			require.Empty(t, said)
		case "c6":
			require.Contains(t, said, "task_canceled")
		}
		require.Equal(t, id != "c1" && id != "c5", marked)
	}
	require.Equal(t, string(chat.Body), string(read("chat_completions").Body), "the same bytes every time")

	s.badly("GET", "/runs/"+run+"/rounds/1/messages", "").refused(http.StatusBadRequest, toolpark.CodeParameterMissing)
	for _, query := range []string{"?format=openai", "?format=Responses", "?format=responses&accept_media=audio", "?format=responses&accept_media=image,,pdf"} {
		s.badly("GET", "/runs/"+run+"/rounds/1/messages"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
}
