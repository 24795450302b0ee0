package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestACommitSettlesItsTask(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	a := s.report(ref, token, `"content":[{"type":"text","text":"line one","annotations":{"x":1}},{"type":"text","text":"line two"}],`+
		`"structured_content":{"id":9007199254740993,"big":12345678901234567890,"d":0.10},"title":"ls","result_type":"complete",`+
		`"metadata":{"checkpoint":[0.10,null],"n":12345678901234567890}`).ok(http.StatusOK)
	require.EqualValues(t, toolpark.Completed, a.text("/task/status"))
	read := s.settled(ref)
	require.Equal(t, string(read.Body), string(a.Body))
	require.Equal(t, "line one\nline two", read.text("/task/output"))
	require.Equal(t, `[{"type":"text","text":"line one"},{"type":"text","text":"line two"}]`, string(read.raw("/task/content")))
	require.Equal(t, `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`, string(read.raw("/task/structured_content")), "every digit")
	require.Equal(t, `{"checkpoint":[0.10,null],"n":12345678901234567890}`, string(read.raw("/task/metadata")))
	require.Equal(t, "ls", read.text("/task/title"))
	require.Nil(t, read.raw("/task/error"))

	t.Run("an error that the tool reports", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		a := s.report(ref, token, `"content":"no such file","is_error":true`).ok(http.StatusOK)
		require.EqualValues(t, toolpark.Completed, a.text("/task/status"))
		require.Equal(t, "true", string(a.raw("/task/is_error")))
		require.Equal(t, "no such file", a.text("/task/output"))
		require.Nil(t, a.raw("/task/structured_content"), "absent is absent")
		require.Nil(t, a.raw("/task/title"))
		require.Nil(t, a.raw("/task/metadata"))
	})
	t.Run("a tool that could not run", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		a := s.report(ref, token, `"content":"the sandbox did not start","outcome":"failed"`).ok(http.StatusOK)
		require.EqualValues(t, toolpark.Failed, a.text("/task/status"))
		require.Equal(t, toolpark.ErrToolFailed, a.text("/task/error/key"))
		require.Equal(t, "the sandbox did not start", a.text("/task/error/detail"))
	})
}

// The table of answers to a commit, by where the task is and what the token was.
func TestCommitAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"), within(readOnly("soon"), time.Second))
	other := s.Runner("other")
	run := s.run()
	first := `"content":"the answer","structured_content":{"b":1,"a":2.0}`

	t.Run("parked", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		s.report(ref, "", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.sendBad("POST", inboxPath(ref, "commit"), s.Box.Token, `{`+first+`}`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		token := s.claim(ref)
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.report(ref, "tp_claim_guess", `"content":5`).refused(http.StatusConflict, toolpark.CodeStaleClaim) // before the grammar
		s.sendBad("POST", inboxPath(ref, "commit"), other.Token, reportBody(token, `"content":5`)).
			refused(http.StatusConflict, toolpark.CodeNotAddressedHere) // before the token
		s.sendBad("POST", inboxPath(ref, "commit"), s.Box.Token, `{"claim_token":5}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.report(runner.Ref{Run: run, TaskKey: "r99t0"}, token, first).refused(http.StatusNotFound, toolpark.CodeNotFound)
		require.EqualValues(t, toolpark.Dispatched, s.asAgent("GET", taskPath(ref), "").text("/task/status"))
		s.report(ref, token, first).ok(http.StatusOK)
	})

	t.Run("settled by this token", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		settled := s.report(ref, token, first).ok(http.StatusOK)
		for name, fields := range map[string]string{
			"the same body":         first,
			"an equal body":         `"structured_content":{"a":2.0, "b":1},"content":"the answer"`,
			"another body":          `"content":"another answer"`,
			"a failure":             `"content":"it failed after all","outcome":"failed"`,
			"a body that is no use": `"content":[{"type":"hologram"}]`,
			"one that cannot be":    `"content":"\u0000"`,
		} {
			again := s.report(ref, token, fields).ok(http.StatusOK)
			require.Equal(t, string(settled.Body), string(again.Body), name)
		}
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.report(ref, "", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.sendBad("POST", inboxPath(ref, "commit"), other.Token, reportBody(token, first)).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
		_, err := s.Kernel.DB.Pool.Exec(t.Context(), `UPDATE task_inputs SET judged_at = judged_at - interval '10 minutes'`)
		require.NoError(t, err)
		require.Equal(t, string(settled.Body), string(s.report(ref, token, first).ok(http.StatusOK).Body), "ten minutes later")
	})

	t.Run("settled by expiry", func(t *testing.T) {
		ref, token := s.claimed(run, "soon")
		s.settled(ref)
		a := s.report(ref, token, first).refused(http.StatusConflict, toolpark.CodeClaimExpired)
		require.EqualValues(t, toolpark.TimedOut, a.text("/error/task/status"))
		require.Equal(t, ref.TaskKey, a.text("/error/task/task_key"))
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	})

	t.Run("settled by a cancel", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		a := s.report(ref, token, first).refused(http.StatusConflict, toolpark.CodeClaimCanceled)
		require.EqualValues(t, toolpark.Canceled, a.text("/error/task/status"))
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	})

	t.Run("settled unclaimed", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		s.report(ref, "tp_claim_guess", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
		s.report(ref, "", first).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	})

	t.Run("failed at birth", func(t *testing.T) {
		s.report(s.call(run, "no_such", `{}`), "x", first).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
	})
}

// Everything here is refused, changes nothing, and leaves the claim to report again.
func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	link := func(members string) string { return `[{"type":"resource_link",` + members + `}]` }
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	const upload = "nexus://uploads/01900000-0000-7000-8000-000000000001"
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	cases := map[string]struct {
		fields  string
		code    toolpark.Code
		mention string
	}{
		"content of no text":             {`"content":5`, toolpark.CodeInvalidContent, "content"},
		"content of one block":           {`"content":{"type":"text","text":"x"}`, toolpark.CodeInvalidContent, "content"},
		"a block without text":           {`"content":[{"type":"text"}]`, toolpark.CodeInvalidContent, "content[0].text"},
		"a block with a number":          {`"content":[{"type":"text","text":"a"},{"type":"text","text":5}]`, toolpark.CodeInvalidContent, "content[1].text"},
		"a block without a type":         {`"content":[{}]`, toolpark.CodeInvalidContent, "content[0].type"},
		"a null block":                   {`"content":[null]`, toolpark.CodeInvalidContent, "content[0]"},
		"a block with more":              {`"content":[{"type":"text","text":"a","Text":"b"}]`, toolpark.CodeInvalidContent, "content[0].Text"},
		"a block's key twice":            {`"content":[{"type":"text","text":"a","text":"b"}]`, toolpark.CodeInvalidContent, "content"},
		"a hologram":                     {`"content":[{"type":"hologram"}]`, toolpark.CodeUnsupportedContentKind, "content[0].type"},
		"an image":                       {`"content":[{"type":"image","data":"","mimeType":"image/png"}]`, toolpark.CodeUnsupportedContentKind, "content[0].type"},
		"too many blocks":                {`"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x"},`, 10_000), ",") + `]`, toolpark.CodeTooManyContentBlocks, "1000"},
		"a link of another scheme":       {`"content":` + link(`"uri":"https://example.com/x","name":"x"`), toolpark.CodeInvalidContent, "content[0].uri"},
		"a link without a name":          {`"content":` + link(`"uri":"`+upload+`"`), toolpark.CodeInvalidContent, "content[0].name"},
		"a link with a size of no use":   {`"content":` + link(`"uri":"`+upload+`","name":"x","size":"1"`), toolpark.CodeInvalidContent, "content[0].size"},
		"a link to nothing":              {`"content":` + link(`"uri":"`+upload+`","name":"x"`), toolpark.CodeUnknownResultUpload, ""},
		"nesting of 1000":                {`"content":` + nested(1000), toolpark.CodeInvalidContent, ""},
		"a content with a huge number":   {`"content":[{"type":"text","text":"x","_meta":{"n":1e131072}}]`, toolpark.CodeInvalidContent, ""},
		"structure nested 1000 deep":     {`"structured_content":` + nested(1000), toolpark.CodeInvalidStructuredContent, "128"},
		"structure with a huge exponent": {`"structured_content":{"x":1e131072}`, toolpark.CodeInvalidStructuredContent, "/x"},
		"structure with 100 of them":     {`"structured_content":[` + strings.TrimSuffix(strings.Repeat("1e131071,", 100), ",") + `]`, toolpark.CodeInvalidStructuredContent, "/0"},
		"structure with a key twice":     {`"structured_content":{"amount":1,"amount":1000}`, toolpark.CodeInvalidStructuredContent, "/amount"},
		"another result type":            {`"result_type":"input_required"`, toolpark.CodeInvalidResultType, "complete"},
		"a result type of no text":       {`"result_type":5`, toolpark.CodeInvalidResultType, ""},
		"another outcome":                {`"outcome":"done"`, toolpark.CodeInvalidOutcome, ""},
		"an is_error of no use":          {`"is_error":"true"`, toolpark.CodeInvalidOutcome, ""},
		"a title of two lines":           {`"title":"a\nb"`, toolpark.CodeInvalidTitle, "line"},
		"a title one byte too long":      {`"title":"` + strings.Repeat("é", 128) + `x"`, toolpark.CodeInvalidTitle, "256"},
		"a title of no text":             {`"title":[]`, toolpark.CodeInvalidTitle, ""},
		"metadata of no object":          {`"metadata":[1]`, toolpark.CodeInvalidMetadata, ""},
		"metadata nested 1000 deep":      {`"metadata":{"a":` + nested(1000) + `}`, toolpark.CodeInvalidMetadata, ""},
		"metadata with a key twice":      {`"metadata":{"a":1,"a":2}`, toolpark.CodeInvalidMetadata, ""},
		"metadata one byte too large":    {`"metadata":{"a":` + text(toolpark.MaxMetadata-7) + `}`, toolpark.CodeMetadataTooLarge, "65536"},
		"a result too large together":    {`"content":` + text(900<<10) + `,"structured_content":` + text(900<<10), toolpark.CodeResultTooLarge, "1048576"},
		"a result one byte too large":    {`"structured_content":` + text(toolpark.MaxResult-1), toolpark.CodeResultTooLarge, "1048576"},
	}
	ref, token := s.claimed(run, "look")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := s.report(ref, token, c.fields).refused(http.StatusUnprocessableEntity, c.code)
			require.Contains(t, a.text("/error/message"), c.mention)
			require.Less(t, len(a.Body), 2048)
		})
	}
	t.Run("a field in other case", func(t *testing.T) {
		s.report(ref, token, `"IS_ERROR":true`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.report(ref, token, `"error":{}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.report(ref, token, `"content":"a","content":"b"`).refused(http.StatusBadRequest, toolpark.CodeBadRequest)
		s.report(ref, token, `"structured_content":NaN`).refused(http.StatusBadRequest, toolpark.CodeBadRequest)
		s.report(ref, token, `"structured_content":`+nested(20_000)).refused(http.StatusBadRequest, toolpark.CodeBadRequest)
		s.report(ref, token, `"content":`+text(toolpark.MaxCommitBody)).refused(http.StatusRequestEntityTooLarge, toolpark.CodeContentTooLarge)
	})
	var staged int
	require.NoError(t, s.Kernel.DB.Pool.QueryRow(t.Context(), `SELECT count(*) FROM task_inputs`).Scan(&staged))
	require.Zero(t, staged, "a refusal changes nothing")
	active, err := s.Box.ClaimActive(t.Context(), ref, token)
	require.NoError(t, err)
	require.True(t, active)
	require.Equal(t, "at last", s.report(ref, token, `"content":"at last"`).ok(http.StatusOK).text("/task/output"))
}

func TestWhatAResultMayBe(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	tags := strings.Repeat("<", toolpark.MaxResult-2)
	for name, c := range map[string]struct{ fields, output, content, structured string }{
		"empty list":       {`"content":[]`, "", "[]", ""},
		"absent":           {`"is_error":false`, "", "[]", ""},
		"null":             {`"content":null,"title":null,"metadata":null,"outcome":null,"is_error":null,"result_type":null`, "", "[]", ""},
		"empty text":       {`"content":""`, "", "[]", ""},
		"white space":      {`"content":" \n\u2003"`, "", "[]", ""},
		"an empty block":   {`"content":[{"type":"text","text":""}]`, "", "[]", ""},
		"a text":           {`"content":"x"`, "x", `[{"type":"text","text":"x"}]`, ""},
		"a block":          {`"content":[{"type":"text","text":"x"}]`, "x", `[{"type":"text","text":"x"}]`, ""},
		"ordinary escapes": {`"content":"a\\u0000 \ud83d\ude00"`, `a\u0000 😀`, "", ""},
		"1 MiB of <":       {`"content":"` + tags + `"`, tags, "", ""},
		"null structure":   {`"structured_content":null`, "", "[]", "null"},
		"false":            {`"structured_content":false`, "", "[]", "false"},
		"zero":             {`"structured_content":0`, "", "[]", "0"},
		"empty string":     {`"structured_content":""`, "", "[]", `""`},
		"empty array":      {`"structured_content":[]`, "", "[]", "[]"},
		"empty object":     {`"structured_content":{}`, "", "[]", "{}"},
		"deep enough":      {`"structured_content":` + strings.Repeat("[", 100) + strings.Repeat("]", 100), "", "[]", strings.Repeat("[", 100) + strings.Repeat("]", 100)},
		"a large exponent": {`"structured_content":[1e999,0.10]`, "", "[]", "[1e999,0.10]"},
	} {
		t.Run(name, func(t *testing.T) {
			ref, token := s.claimed(run, "look")
			s.report(ref, token, c.fields).ok(http.StatusOK)
			a := s.settled(ref)
			require.EqualValues(t, toolpark.Completed, a.text("/task/status"))
			require.Equal(t, c.output, a.text("/task/output"))
			if c.content != "" {
				require.Equal(t, c.content, string(a.raw("/task/content")))
			}
			require.Equal(t, c.structured, string(a.raw("/task/structured_content")))
		})
	}
}

// What no database can hold ends the task as failed: it is not offered again and nobody waits for it.
func TestUnstorableResults(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	for name, fields := range map[string]string{
		"U+0000 in a text":          `"content":"a\u0000b"`,
		"U+0000 in a block":         `"content":[{"type":"text","text":"a\u0000b"}]`,
		"U+0000 in a structure":     `"structured_content":{"a":["x\u0000"]}`,
		"U+0000 in a key":           `"structured_content":{"a\u0000":1}`,
		"U+0000 in a title":         `"title":"a\u0000"`,
		"U+0000 in metadata":        `"metadata":{"a":"\u0000"}`,
		"U+0000 in a metadata key":  `"metadata":{"\u0000":1}`,
		"a lone surrogate":          `"content":"a\ud83db"`,
		"one in a structure":        `"structured_content":["\ude00"]`,
		"one in a title":            `"title":"\ud83d"`,
		"two as keys":               `"structured_content":{"\ud83d":1,"\ud83e":2}`,
		"a byte that is no text":    "\"content\":\"a\xffb\"",
		"one in metadata":           "\"metadata\":{\"a\":\"\xff\"}",
		"half an emoji":             "\"structured_content\":\"\xf0\x9f\x98\"",
		"with an output that fails": `"content":"\u0000","outcome":"failed"`,
	} {
		t.Run(name, func(t *testing.T) {
			ref, token := s.claimed(run, "look")
			for range 2 { // a repeat reads its own verdict
				a := s.report(ref, token, fields).refused(http.StatusUnprocessableEntity, toolpark.CodeResultUnstorable)
				require.NotContains(t, string(a.Body), `\u0000`)
			}
			a := s.settled(ref)
			require.EqualValues(t, toolpark.Failed, a.text("/task/status"))
			require.Equal(t, toolpark.ErrResultUnstorable, a.text("/task/error/key"))
			require.Contains(t, a.text("/task/error/detail"), "unsupported_text: ")
			other := s.report(ref, token, `"content":"fine"`).ok(http.StatusOK)
			require.EqualValues(t, toolpark.Failed, other.text("/task/status"), "write-once")
		})
	}
}

func TestOutputSchemas(t *testing.T) {
	t.Parallel()
	promises := map[string]string{
		"null": `{"type":"null"}`, "array": `{"type":"array"}`, "boolean": `{"type":"boolean"}`,
		"object": `{"type":"object","required":["rows"],"properties":{"rows":{"type":"array","items":{"type":"integer","maximum":9007199254740992}}}}`,
		"none":   "",
	}
	var entries []runner.Entry
	for name, promise := range promises {
		e := readOnly(name)
		if promise != "" {
			e.OutputSchema = jsontext.Value(promise)
		}
		entries = append(entries, e)
	}
	s := newScene(t, entries...)
	run := s.run()
	for _, c := range []struct{ tool, structured, mismatch string }{
		{"null", `null`, ""},
		{"null", `false`, "type"},
		{"null", ``, "absent"},
		{"array", `[]`, ""},
		{"array", `null`, "type"},
		{"array", `{}`, "type"},
		{"array", ``, "absent"},
		{"boolean", `false`, ""},
		{"boolean", `0`, "type"},
		{"boolean", ``, "absent"},
		{"object", `{"rows":[]}`, ""},
		{"object", `{}`, "rows"},
		{"object", `{"rows":[1,"x"]}`, "/rows/1"},
		{"object", `{"rows":[9007199254740993]}`, "/rows/0"},
		{"object", `""`, "type"},
		{"object", ``, "absent"},
		{"none", `null`, ""},
		{"none", `""`, ""},
		{"none", ``, ""},
	} {
		t.Run(c.tool+" "+c.structured, func(t *testing.T) {
			ref, token := s.claimed(run, c.tool)
			fields := `"content":"what was said","title":"t"`
			if c.structured != "" {
				fields += `,"structured_content":` + c.structured
			}
			a := s.report(ref, token, fields).ok(http.StatusOK) // it reported faithfully
			require.Equal(t, string(a.Body), string(s.report(ref, token, fields).ok(http.StatusOK).Body))
			if c.mismatch == "" {
				require.EqualValues(t, toolpark.Completed, a.text("/task/status"))
				require.Equal(t, c.structured, string(a.raw("/task/structured_content")))
				return
			}
			require.EqualValues(t, toolpark.Failed, a.text("/task/status"))
			require.Equal(t, toolpark.ErrOutputSchemaMismatch, a.text("/task/error/key"))
			require.Contains(t, a.text("/task/error/detail"), c.mismatch)
			require.Equal(t, `[{"type":"text","text":"what was said"}]`, string(a.raw("/task/rejected_result/content")))
			require.Equal(t, c.structured, string(a.raw("/task/rejected_result/structured_content")))
			require.Equal(t, `""`, string(a.raw("/task/output")))
			require.Nil(t, a.raw("/task/structured_content"))
		})
	}
	t.Run("an error or a failure promises nothing", func(t *testing.T) {
		ref, token := s.claimed(run, "object")
		require.EqualValues(t, toolpark.Completed, s.report(ref, token, `"content":"no","is_error":true`).ok(http.StatusOK).text("/task/status"))
		ref, token = s.claimed(run, "object")
		require.Equal(t, toolpark.ErrToolFailed, s.report(ref, token, `"content":"no","outcome":"failed"`).ok(http.StatusOK).text("/task/error/key"))
	})
	t.Run("the promise is that of the acceptance", func(t *testing.T) {
		s.Serve(s.Box, readOnly("object"))
		ref, token := s.claimed(run, "object")
		require.Equal(t, toolpark.ErrOutputSchemaMismatch, s.report(ref, token, `"structured_content":{}`).ok(http.StatusOK).text("/task/error/key"))
	})
}

// A report is durable before anybody judges it, and it is judged by when it came.
func TestReportsWaitForAWorker(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	stop := k.StartWorker()
	s := sceneAt(t, k, readOnly("look"), within(kerneltest.Entry("brief", kerneltest.Writes), 2500*time.Millisecond))
	waits, run := s.door, s.run()
	refs := s.calls(run, agent.Call{Name: "brief"}, agent.Call{Name: "brief"}, agent.Call{Name: "look"})
	inTime, late, twice := refs[0], refs[1], refs[2]
	inTimeToken, lateToken, twiceToken := s.claim(inTime), s.claim(late), s.claim(twice)
	stop()
	s.door = hasty(t, k)

	pending := s.report(inTime, inTimeToken, `"content":"in time"`).ok(http.StatusAccepted)
	require.Equal(t, "pending", pending.text("/commit/status"))
	s.report(inTime, inTimeToken, `"content":"in time"`).ok(http.StatusAccepted) // the same input
	s.report(inTime, inTimeToken, `"content":5`).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidContent)
	s.report(twice, twiceToken, `"content":"the first"`).ok(http.StatusAccepted)
	s.report(twice, twiceToken, `"content":"the second"`).ok(http.StatusAccepted)
	require.EqualValues(t, toolpark.Dispatched, s.asAgent("GET", taskPath(inTime), "").text("/task/status"))
	require.Eventually(t, func() bool {
		a := s.send("GET", inboxPath(late, "claim"), s.Box.Token, "", "Claim-Token", lateToken)
		return string(a.raw("/claim/active")) == "false"
	}, patience, 100*time.Millisecond, "its deadline passes while no worker runs")
	s.report(late, lateToken, `"content":"too late"`).ok(http.StatusAccepted)

	k.StartWorker()
	s.door = waits
	require.Equal(t, "in time", s.settled(inTime).text("/task/output"), "staged in time wins, whenever it is judged")
	require.Equal(t, "in time", s.report(inTime, inTimeToken, `"content":"in time"`).ok(http.StatusOK).text("/task/output"))
	require.EqualValues(t, toolpark.Uncertain, s.settled(late).text("/task/status"))
	s.report(late, lateToken, `"content":"too late"`).refused(http.StatusConflict, toolpark.CodeClaimExpired)
	require.Equal(t, "the first", s.settled(twice).text("/task/output"))
	require.Equal(t, "the first", s.report(twice, twiceToken, `"content":"the second"`).ok(http.StatusOK).text("/task/output"))
}

func TestTooManyReports(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	stop := k.StartWorker()
	s := sceneAt(t, k, readOnly("look"))
	waits := s.door
	ref, token := s.claimed(s.run(), "look")
	stop()
	s.door = hasty(t, k)
	for i := range toolpark.MaxReportsPerClaim {
		s.report(ref, token, fmt.Sprintf(`"content":"report %d"`, i)).ok(http.StatusAccepted)
	}
	a := s.report(ref, token, `"content":"one more"`).refused(http.StatusTooManyRequests, toolpark.CodeRateLimited)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	s.report(ref, token, `"content":"report 0"`).ok(http.StatusAccepted) // it is no new one
	k.StartWorker()
	s.door = waits
	require.Equal(t, "report 0", s.settled(ref).text("/task/output"))
}

// 40 large reports at once, and the same report from many connections at once.
func TestReportsAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	calls := make([]agent.Call, 40)
	for i := range calls {
		calls[i] = agent.Call{Name: "look"}
	}
	refs := s.calls(run, calls...)
	var all sync.WaitGroup
	for i, ref := range refs {
		token := s.claim(ref)
		body := reportBody(token, fmt.Sprintf(`"content":"%d%s"`, i, strings.Repeat("x", 100<<10)))
		for range 2 {
			all.Go(func() {
				a := s.send("POST", inboxPath(ref, "commit"), s.Box.Token, body)
				if a.Status != http.StatusOK && a.Status != http.StatusAccepted {
					t.Errorf("%d: %.300s", a.Status, a.Body)
				}
			})
		}
	}
	all.Wait()
	round, err := s.Agent.Round(t.Context(), run, 1, time.Minute)
	require.NoError(t, err)
	require.True(t, round.Settled)
	for i, result := range round.Results {
		require.True(t, strings.HasPrefix(result.Output, fmt.Sprintf("%dx", i)))
	}
	require.NotContains(t, history(t, s.Kernel, run, refs), strings.Repeat("x", 100), "nothing large enters Temporal")
}
