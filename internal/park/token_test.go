package park_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/sdk/agent"
)

func TestAClaimKeyRepeatedGetsTheSameGrant(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	box := l.runner.As(l.Account)
	row, first, err := l.Park.Claim(t.Context(), box, task.TaskID, "attempt")
	require.NoError(t, err)
	require.True(t, row.Claimed)

	t.Run("from another API process", func(t *testing.T) {
		again, claim, err := l.Another(t).Park.Claim(t.Context(), box, task.TaskID, "attempt")
		require.NoError(t, err)
		require.Equal(t, first, claim, "token and deadline are untouched")
		require.Equal(t, row, again)
	})
	t.Run("another key is another claim", func(t *testing.T) {
		_, _, err := l.Park.Claim(t.Context(), box, task.TaskID, "attempt 2")
		require.Equal(t, toolpark.CodeAlreadyClaimed, code(err))
	})
	t.Run("not once the task is being canceled", func(t *testing.T) {
		_, err := l.Park.StageCancel(t.Context(), l.Member(), task.TaskID)
		require.NoError(t, err)
		_, _, err = l.Park.Claim(t.Context(), box, task.TaskID, "attempt")
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(err))
	})
	t.Run("not once the task has settled", func(t *testing.T) {
		require.NoError(t, l.advance(task))
		_, _, err := l.Park.Claim(t.Context(), box, task.TaskID, "attempt")
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(err))
	})
}

func TestAClaimKeyIsItsExecutorsOwn(t *testing.T) {
	t.Parallel()
	a := kerneltest.StartAPI(t).Account()
	one := a.Executor(toolpark.ToolsProvider, "one", toolpark.AccountWide)
	two := a.Executor(toolpark.ToolsProvider, "two", toolpark.AccountWide)
	a.Serve(one, kerneltest.Entry("echo", kerneltest.ReadOnly))
	a.Serve(two, kerneltest.Entry("echo", kerneltest.ReadOnly))
	l := &lot{Account: a, run: a.BareRun()}
	_, err := a.Agent.AppendTasks(t.Context(), l.run, []agent.Step{{Name: "echo", Key: "pooled"}}, "")
	require.NoError(t, err)
	task := l.task("pooled")
	_, _, err = a.Park.Claim(t.Context(), one.As(a), task.TaskID, "same")
	require.NoError(t, err)
	_, _, err = a.Park.Claim(t.Context(), two.As(a), task.TaskID, "same")
	require.Equal(t, toolpark.CodeAlreadyClaimed, code(err))
}

func TestTheSecretRotates(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	box := l.runner.As(l.Account)
	before, next := l.Park.Tokens.Secret, []byte("the secret after the rotation...")
	rotated := withTokens(l.Kernel, park.Tokens{Secret: next, Previous: before})
	gone := withTokens(l.Kernel, park.Tokens{Secret: next})

	task := l.author(time.Hour)
	token := l.claim(task)
	_, claim, err := rotated.Claim(t.Context(), box, task.TaskID, "key")
	require.NoError(t, err)
	require.Equal(t, token, claim.Token, "a live claim keeps the token of the secret it was made with")
	_, _, err = gone.Claim(t.Context(), box, task.TaskID, "key")
	require.Equal(t, toolpark.CodeAlreadyClaimed, code(err), "only the secret before is known")
	_, err = gone.StageCommit(t.Context(), box, task.TaskID, token, textReport("done"))
	require.NoError(t, err, "a token that is held needs no secret")

	fresh := l.author(time.Hour)
	_, claim, err = rotated.Claim(t.Context(), box, fresh.TaskID, "key")
	require.NoError(t, err)
	_, again, err := gone.Claim(t.Context(), box, fresh.TaskID, "key")
	require.NoError(t, err, "new claims are made with the new secret")
	require.Equal(t, claim, again)
	require.NotEqual(t, token, claim.Token, "two tasks never share a token")
}

func TestATokenIsNotStored(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	token := l.claim(task)
	require.NoError(t, l.stage(task, token, "done"))
	var found int
	require.NoError(t, l.DB.Pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM tasks t WHERE t::text LIKE '%' || $1 || '%')
			+ (SELECT count(*) FROM task_inputs i WHERE i::text LIKE '%' || $1 || '%')`, token).Scan(&found))
	require.Zero(t, found)
}

func TestOnlyTheTokenCommits(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task, other := l.author(time.Hour), l.author(time.Hour)
	token, foreign := l.claim(task), l.claim(other)
	for _, wrong := range []string{"", foreign, token + "x", token[:len(token)-1]} {
		require.Equal(t, toolpark.CodeStaleClaim, code(l.stage(task, wrong, "done")), wrong)
	}
	l.nothingStaged(task)
	require.NoError(t, l.stage(task, token, "done"))
}
