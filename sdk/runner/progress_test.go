package runner_test

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestProgressSendsTheNewestFrame(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	talk := tool("talk", func(_ context.Context, call runner.Call) (runner.Result, error) {
		for i := range 600 {
			call.Progress(jsontext.Value(fmt.Sprintf(`{"n":%d}`, i)))
			time.Sleep(time.Millisecond)
		}
		call.Progress(jsontext.Value(`{"not JSON`))
		call.Progress(jsontext.Value(`"` + strings.Repeat("x", 5000) + `"`))
		time.Sleep(300 * time.Millisecond)
		return runner.Result{}, nil
	})
	work(t, s, runner.Worker{Tools: []runner.Tool{talk}})
	began := time.Now()
	s.add(task{key: "t1", tool: "talk"}, true)
	s.settled("t1")
	s.with("t1", func(tk *task) {
		require.GreaterOrEqual(t, len(tk.frames), 2)
		require.LessOrEqual(t, len(tk.frames), 1+int(time.Since(began)/toolpark.ProgressInterval))
		require.Equal(t, `{"n":599}`, tk.frames[len(tk.frames)-1])
	})
}
