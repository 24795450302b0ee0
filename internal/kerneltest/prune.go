package kerneltest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/postgres"
)

// Age lets a run have ended some days earlier than it did.
func (k *Kernel) Age(run string, days int) {
	k.T.Helper()
	tag, err := k.DB.Pool.Exec(k.T.Context(), `UPDATE runs SET ended_at = ended_at - make_interval(days => $2) WHERE id = $1::uuid`, run, days)
	require.NoError(k.T, err)
	require.EqualValues(k.T, 1, tag.RowsAffected())
}

// Expire marks the runs whose details are to be deleted.
func (k *Kernel) Expire() {
	k.T.Helper()
	for more := true; more; {
		var err error
		more, err = k.DB.ExpireDetails(k.T.Context())
		require.NoError(k.T, err)
	}
}

// Prune deletes the details of marked runs at once, whoever may still read them, in steps of so many tasks. It takes
// no more than the given number of steps, all of them if that is 0, and tells how many tasks it deleted.
func (k *Kernel) Prune(size, steps int) (tasks int) {
	k.T.Helper()
	ctx := k.T.Context()
	_, err := k.DB.Pool.Exec(ctx, `UPDATE runs SET details_pruned_at = details_pruned_at - $1::interval WHERE details_pruned_at IS NOT NULL`,
		2*postgres.PruneGrace)
	require.NoError(k.T, err)
	for step := 1; ; step++ {
		pruned, err := k.DB.PruneDetails(ctx, size)
		require.NoError(k.T, err)
		tasks += pruned.Tasks
		if !pruned.More || step == steps {
			return tasks
		}
	}
}

// Unuse lets nobody have used contexts, projections and output schemas for two days.
func (k *Kernel) Unuse() {
	k.T.Helper()
	for _, table := range []string{"frozen_contexts", "projections", "output_schemas"} {
		_, err := k.DB.Pool.Exec(k.T.Context(), `UPDATE `+table+` SET used_at = now() - $1::interval`, 48*time.Hour)
		require.NoError(k.T, err)
	}
}

// DeleteUnused deletes what nobody uses any more, some rows at a time, and tells how many it were.
func (k *Kernel) DeleteUnused() (deleted int) {
	k.T.Helper()
	for _, kind := range postgres.SharedKinds {
		for place := new(postgres.SharedPlace); place != nil; {
			next, n, err := k.DB.DeleteUnused(k.T.Context(), kind, *place, 2)
			require.NoError(k.T, err)
			place = next
			deleted += n
		}
	}
	return deleted
}

// Count counts the rows that a query's FROM gives.
func (k *Kernel) Count(from string, args ...any) (n int) {
	k.T.Helper()
	require.NoError(k.T, k.DB.Pool.QueryRow(k.T.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}
