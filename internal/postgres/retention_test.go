package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// attic is an account whose runs freeze one context.
type attic struct {
	*postgres.DB
	t        *testing.T
	account  uuid.UUID
	human    postgres.Member
	hash     []byte
	document jsontext.Value
}

func newAttic(t *testing.T) *attic {
	t.Helper()
	a := &attic{DB: openDB(t), t: t, document: jsontext.Value(`{"tools":[],"environment":{},"skills":[]}`)}
	a.account, a.human = newAccount(t, a.DB)
	sum := sha256.Sum256(a.document)
	a.hash = sum[:]
	return a
}

func (a *attic) exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.Pool.Exec(a.t.Context(), sql, args...)
	require.NoError(a.t, err)
}

func (a *attic) count(from string, args ...any) (n int) {
	a.t.Helper()
	require.NoError(a.t, a.Pool.QueryRow(a.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

// accept makes a run that freezes the context. between runs before the transaction commits.
func (a *attic) accept(ctx context.Context, between func()) (uuid.UUID, error) {
	id := uuid.NewV7()
	if err := a.Tx(ctx, func(tx *postgres.Tx) error {
		postgres.InsertRun(tx, &postgres.Run{ID: id, AccountID: a.account, CreatorID: a.human.ID, Metadata: jsontext.Value(`{}`)})
		return nil
	}); err != nil {
		return id, err
	}
	return id, a.Tx(ctx, func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(ctx, tx, a.account, id)
		if err != nil {
			return err
		}
		postgres.AcceptRun(tx, run, "bypass", a.hash, a.document)
		if between == nil {
			return nil
		}
		_, err = tx.Exec(ctx, `SELECT`) // what was queued runs before it
		between()
		return err
	})
}

// leave lets the runs end and be pruned, so that nothing refers to the context, and makes it old.
func (a *attic) leave() {
	a.t.Helper()
	a.exec(`UPDATE runs SET status = 'completed', ended_at = now() - interval '1 year' WHERE status <> 'completed'`)
	for more := true; more; {
		var err error
		more, err = a.ExpireDetails(a.t.Context())
		require.NoError(a.t, err)
	}
	a.exec(`UPDATE frozen_contexts SET used_at = now() - interval '2 days'`)
}

func (a *attic) deleteUnused(kind postgres.Shared) int {
	a.t.Helper()
	_, deleted, err := a.DeleteUnused(a.t.Context(), kind, postgres.SharedPlace{}, 100)
	require.NoError(a.t, err)
	return deleted
}

// A run that freezes a context at the moment when nothing refers to it any more has it.
func TestAContextIsNotLostToARace(t *testing.T) {
	t.Parallel()

	t.Run("the run is about to commit", func(t *testing.T) {
		t.Parallel()
		a := newAttic(t)
		_, err := a.accept(t.Context(), nil)
		require.NoError(t, err)
		a.leave()
		_, err = a.accept(t.Context(), func() { require.Zero(t, a.deleteUnused(postgres.SharedContexts)) })
		require.NoError(t, err)
		require.Equal(t, 1, a.count(`frozen_contexts`))
		a.exec(`UPDATE frozen_contexts SET used_at = now() - interval '2 days'`)
		require.Zero(t, a.deleteUnused(postgres.SharedContexts), "a run refers to it")
	})

	t.Run("the deletion is about to commit", func(t *testing.T) {
		t.Parallel()
		a := newAttic(t)
		_, err := a.accept(t.Context(), nil)
		require.NoError(t, err)
		a.leave()
		accepted := make(chan error, 1)
		require.NoError(t, pgx.BeginFunc(t.Context(), a.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `DELETE FROM frozen_contexts`)
			go func() {
				_, err := a.accept(context.WithoutCancel(t.Context()), nil)
				accepted <- err
			}()
			require.Eventually(t, func() bool {
				return a.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
			}, 30*time.Second, 10*time.Millisecond, "the run waits for the deletion")
			return err
		}))
		require.NoError(t, <-accepted)
		require.Equal(t, 1, a.count(`frozen_contexts`))
	})

	t.Run("anyhow", func(t *testing.T) {
		t.Parallel()
		a := newAttic(t)
		ctx, stop := context.WithCancel(t.Context())
		var pruning sync.WaitGroup
		deleted := 0
		pruning.Go(func() {
			for ctx.Err() == nil {
				_, n, err := a.DeleteUnused(ctx, postgres.SharedContexts, postgres.SharedPlace{}, 10)
				if err == nil {
					deleted += n
				}
			}
		})
		for range 100 {
			a.leave()
			var runs sync.WaitGroup
			for range 3 {
				runs.Go(func() {
					_, err := a.accept(t.Context(), nil)
					if err != nil {
						t.Errorf("a run was not accepted: %v", err)
					}
				})
			}
			runs.Wait()
			require.Equal(t, 1, a.count(`frozen_contexts c WHERE EXISTS (SELECT FROM runs r WHERE r.context_hash = c.hash)`))
		}
		stop()
		pruning.Wait()
		t.Logf("deleted %d times", deleted)
	})

	t.Run("one that is in use is written to once in half a day", func(t *testing.T) {
		t.Parallel()
		a := newAttic(t)
		_, err := a.accept(t.Context(), nil)
		require.NoError(t, err)
		row := func() (at string) {
			require.NoError(t, a.Pool.QueryRow(t.Context(), `SELECT ctid::text FROM frozen_contexts`).Scan(&at))
			return at
		}
		first := row()
		_, err = a.accept(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, first, row())
		a.exec(`UPDATE frozen_contexts SET used_at = now() - interval '13 hours'`)
		second := row()
		_, err = a.accept(t.Context(), nil)
		require.NoError(t, err)
		require.NotEqual(t, second, row())
	})
}

// An output schema stays while it is announced, while a context or a task names it, and for a day after.
func TestOutputSchemasThatNobodyUsesAreDeleted(t *testing.T) {
	t.Parallel()
	a := newAttic(t)
	box, _ := newRunner(t, a.DB, a.account, a.human.ID, "box", toolpark.AccountWide)
	announce := func(schemas ...string) (hashes [][]byte) {
		t.Helper()
		var announcement declaration.Announcement
		announcement.Environment, announcement.Documents = jsontext.Value(`{}`), jsontext.Value(`[]`)
		for i, schema := range schemas {
			sum := sha256.Sum256([]byte(schema))
			hashes = append(hashes, bytes.Clone(sum[:]))
			announcement.Tools = append(announcement.Tools, declaration.AnnouncedTool{
				Name: fmt.Sprintf("tool%d", i), OutputSchema: jsontext.Value(schema), Entry: jsontext.Value(`{}`),
			})
		}
		_, err := a.Announce(t.Context(), a.account, box, announcement)
		require.NoError(t, err)
		return hashes
	}
	const age = `UPDATE output_schemas SET used_at = now() - interval '2 days'`
	hashes := announce(`{"title":"announced"}`, `{"title":"frozen"}`, `{"title":"dropped"}`)
	a.document = jsontext.Value(fmt.Sprintf(`{"tools":[{"name":"x"},{"served":{"output_schema_hash":%s}}]}`, mustJSON(t, hashes[1])))
	sum := sha256.Sum256(a.document)
	a.hash = sum[:]
	_, err := a.accept(t.Context(), nil)
	require.NoError(t, err)
	a.exec(age)
	require.Zero(t, a.deleteUnused(postgres.SharedOutputSchemas), "all are announced")

	announce(`{"title":"announced"}`)
	require.Zero(t, a.deleteUnused(postgres.SharedOutputSchemas), "who read the former announcement may be about to name them")
	a.exec(age)
	require.Equal(t, 1, a.deleteUnused(postgres.SharedOutputSchemas), "the one that was dropped")
	require.Zero(t, a.count(`output_schemas WHERE hash = $1`, hashes[2]))

	a.leave()
	require.Zero(t, a.deleteUnused(postgres.SharedOutputSchemas), "the context is still there")
	require.Equal(t, 1, a.deleteUnused(postgres.SharedContexts))
	require.Equal(t, 1, a.deleteUnused(postgres.SharedOutputSchemas), "the one that was frozen")
	require.Equal(t, 1, a.count(`output_schemas WHERE hash = $1`, hashes[0]))
}

// Two that prune at once share the runs.
func TestPruningAtOnce(t *testing.T) {
	t.Parallel()
	a := newAttic(t)
	for range 150 {
		_, err := a.accept(t.Context(), nil)
		require.NoError(t, err)
	}
	a.exec(`INSERT INTO tasks (run_id, key, account_id, position, kind, origin, status, began_at, settled_at, settled_by)
		SELECT id, 's' || n || '-tool-0', account_id, n, 'tool', 'author', CASE WHEN n % 2 = 0 THEN 'completed' ELSE 'failed' END, now(), now(), 'commit'
		FROM runs, generate_series(1, 20) n`)
	a.leave()
	pruned, err := a.PruneDetails(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, postgres.Pruned{}, pruned, "whoever reads them has some time left")
	a.exec(`UPDATE runs SET details_pruned_at = now() - interval '1 minute'`)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for more := true; more; {
				pruned, err := a.PruneDetails(t.Context(), 40)
				if err != nil {
					t.Errorf("prune: %v", err)
					return
				}
				more = pruned.More
			}
		})
	}
	both.Wait()
	for more := true; more; { // what one passed over since the other had it
		pruned, err := a.PruneDetails(t.Context(), 40)
		require.NoError(t, err)
		more = pruned.More
	}
	require.Zero(t, a.count(`tasks`))
	require.Equal(t, 150, a.count(`runs WHERE details_gone_at IS NOT NULL AND pruned_tasks::text = '{"completed":10,"failed":10}'`))
}

func TestRetentionIsBounded(t *testing.T) {
	t.Parallel()
	a := newAttic(t)
	for _, days := range []int{0, -1, 36_501} {
		_, err := a.SetRetention(t.Context(), a.account, &days)
		require.Error(t, err)
	}
	days := 36_500
	set, err := a.SetRetention(t.Context(), a.account, &days)
	require.NoError(t, err)
	require.Equal(t, 36_500, *set.RetentionDays)
	_, err = a.ExpireDetails(t.Context())
	require.NoError(t, err)
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
