package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

func TestStepsOfAllVerbsAreMixed(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	const body = `{"steps":[
		{"tool":{"name":"look","route":{"kind":"runner"},"key":"a"}},{"wait":{"task":"a"}},
		{"ask":{"prompt":"Which?","key":"b","options":["x"],"strict_options":true,"timeout_ms":86400000}},
		{"wait":{"task":"b","timeout_ms":604800000,"key":"c"}},{"ask":{"prompt":"Why?"}}]}`
	a := s.asAgent("POST", "/runs/"+run+"/tasks", body, "Idempotency-Key", "k").ok(http.StatusCreated)
	require.Equal(t, `{"tasks":[`+
		`{"task_key":"a","kind":"tool","tool_name":"look","status":"dispatched"},`+
		`{"task_key":"s1-wait-1","kind":"wait","tool_name":null,"status":"running"},`+
		`{"task_key":"b","kind":"ask","tool_name":null,"status":"awaiting_input"},`+
		`{"task_key":"c","kind":"wait","tool_name":null,"status":"running"},`+
		`{"task_key":"s1-ask-4","kind":"ask","tool_name":null,"status":"awaiting_input"}]}`, strings.TrimSpace(string(a.Body)))
	again := s.asAgent("POST", "/runs/"+run+"/tasks", body, "Idempotency-Key", "k").ok(http.StatusCreated)
	require.Equal(t, string(a.Body), string(again.Body))
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
}

func TestAskAndWaitStepRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	s.step(run, `"name":"look","route":{"kind":"runner"},"key":"taken"`)
	elsewhere := s.run()
	s.step(elsewhere, `"name":"look","route":{"kind":"runner"},"key":"theirs"`)
	before := s.events(run)
	ask := func(members string) string { return `{"ask":{"prompt":"Which?",` + members + `}}` }
	wait := func(members string) string { return `{"wait":{"task":"taken",` + members + `}}` }
	options := strings.Repeat(`"x",`, toolpark.MaxAskOptions)
	for name, c := range map[string]struct {
		step string
		code toolpark.Code
		path string
	}{
		"no prompt":               {`{"ask":{}}`, toolpark.CodeValidationFailed, "/ask/prompt"},
		"a blank prompt":          {`{"ask":{"prompt":"\t\u00a0"}}`, toolpark.CodeValidationFailed, "/ask/prompt"},
		"a prompt of a number":    {`{"ask":{"prompt":5}}`, toolpark.CodeValidationFailed, "/ask/prompt"},
		"a prompt too long":       {`{"ask":{"prompt":"` + strings.Repeat("x", toolpark.MaxPrompt+1) + `"}}`, toolpark.CodeValidationFailed, "/ask/prompt"},
		"a prompt with U+0000":    {`{"ask":{"prompt":"a\u0000"}}`, toolpark.CodeValidationFailed, "/ask/prompt"},
		"no options":              {ask(`"options":[]`), toolpark.CodeValidationFailed, "/ask/options"},
		"null options":            {ask(`"options":null`), toolpark.CodeValidationFailed, "/ask/options"},
		"options of no list":      {ask(`"options":"a"`), toolpark.CodeValidationFailed, "/ask/options"},
		"51 options":              {ask(`"options":[` + options + `"x"]`), toolpark.CodeValidationFailed, "/ask/options"},
		"an option of no text":    {ask(`"options":["a",5]`), toolpark.CodeValidationFailed, "/ask/options"},
		"a blank option":          {ask(`"options":["a"," "]`), toolpark.CodeValidationFailed, "/ask/options/1"},
		"an option too long":      {ask(`"options":["` + strings.Repeat("é", toolpark.MaxAskOption+1) + `"]`), toolpark.CodeValidationFailed, "/ask/options/0"},
		"an option twice":         {ask(`"options":["a","b","a"]`), toolpark.CodeValidationFailed, "/ask/options/2"},
		"an option almost twice":  {ask(`"options":["a"," a"]`), toolpark.CodeValidationFailed, "/ask/options/1"},
		"multi without options":   {ask(`"multi":true`), toolpark.CodeValidationFailed, "/ask/multi"},
		"multi of no boolean":     {ask(`"options":["a"],"multi":"yes"`), toolpark.CodeValidationFailed, "/ask/multi"},
		"null for strict_options": {ask(`"options":["a"],"strict_options":null`), toolpark.CodeValidationFailed, "/ask/strict_options"},
		"strict without options":  {ask(`"strict_options":false`), toolpark.CodeValidationFailed, "/ask/strict_options"},
		"more than a day":         {ask(`"timeout_ms":86400001`), toolpark.CodeValidationFailed, "/ask/timeout_ms"},
		"no time at all":          {ask(`"timeout_ms":0`), toolpark.CodeValidationFailed, "/ask/timeout_ms"},
		"a taken key of an ask":   {ask(`"key":"taken"`), toolpark.CodeDuplicateTaskKey, "/ask/key"},
		"a key to be minted":      {ask(`"key":"s9-ask-0"`), toolpark.CodeDuplicateTaskKey, "/ask/key"},
		"a key of bad form":       {ask(`"key":"-"`), toolpark.CodeValidationFailed, "/ask/key"},
		"an unknown member":       {ask(`"scope":"x"`), toolpark.CodeValidationFailed, "/ask"},
		"an ask of no object":     {`{"ask":"Which?"}`, toolpark.CodeValidationFailed, "/ask"},

		"no task":                     {`{"wait":{}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"a task of no text":           {`{"wait":{"task":5}}`, toolpark.CodeValidationFailed, "/wait"},
		"an impossible task":          {`{"wait":{"task":"a b"}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"an unknown task":             {`{"wait":{"task":"gone"}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"a task of another run":       {`{"wait":{"task":"theirs"}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"a task of a later step":      {`{"wait":{"task":"later"}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"itself":                      {`{"wait":{"task":"me","key":"me"}}`, toolpark.CodeValidationFailed, "/wait/task"},
		"more than seven days":        {wait(`"timeout_ms":604800001`), toolpark.CodeValidationFailed, "/wait/timeout_ms"},
		"a negative time":             {wait(`"timeout_ms":-1`), toolpark.CodeValidationFailed, "/wait/timeout_ms"},
		"a taken key of a wait":       {wait(`"key":"taken"`), toolpark.CodeDuplicateTaskKey, "/wait/key"},
		"an unknown member of a wait": {wait(`"tasks":[]`), toolpark.CodeValidationFailed, "/wait"},
		"two verbs":                   {`{"ask":{"prompt":"x"},"wait":{"task":"taken"}}`, toolpark.CodeValidationFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[{"ask":{"prompt":"Good?","key":"first"}},`+c.step+
				`,{"ask":{"prompt":"Good?","key":"later"}},{"wait":{"task":"first"}}]}`).refused(http.StatusUnprocessableEntity, c.code)
			require.Equal(t, "/steps/1"+c.path, a.text("/error/steps/0/path"), "%s", a.Body)
			require.EqualValues(t, c.code, a.text("/error/steps/0/code"))
			require.NotEmpty(t, a.text("/error/steps/0/message"))
			require.Nil(t, a.raw("/error/steps/1"))
		})
	}

	t.Run("of all verbs together", func(t *testing.T) {
		a := s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[{"wait":{"task":"gone"}},{"ask":{"prompt":""}},{"tool":{"name":"wait"}},`+
			ask(`"key":"same"`)+`,{"wait":{"task":"same","key":"same"}}]}`).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
		for i, want := range []string{"/steps/0/wait/task", "/steps/1/ask/prompt", "/steps/2/tool/name", "/steps/4/wait/key"} {
			require.Equal(t, want, a.text(fmt.Sprintf("/error/steps/%d/path", i)), "%s", a.Body)
		}
	})
	require.Equal(t, before, s.events(run), "nothing was created")
}
