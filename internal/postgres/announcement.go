package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"uuid"

	"github.com/toolpark/toolpark/internal/declaration"
)

// Announce replaces what an executor serves, takes back its shutdown, and describes it as it is then.
// It takes the same few statements for one tool as for a thousand.
func (db *DB) Announce(ctx context.Context, account, id uuid.UUID, a declaration.Announcement) (ExecutorDescription, error) {
	columns, schemas, err := announcedColumns(a.Tools)
	if err != nil {
		return ExecutorDescription{}, err
	}
	if err := db.markSchemas(ctx, account, id, schemas); err != nil {
		return ExecutorDescription{}, err
	}
	var described ExecutorDescription
	err = db.Tx(ctx, func(tx *Tx) error {
		// The executor's row first: two announcements at once follow one another.
		if _, err := tx.Exec(ctx, `
			UPDATE executors
			SET environment = $3, documents = $4, announced_at = now(), shutting_down = false
			WHERE account_id = $1 AND id = $2`, account, id, a.Environment, a.Documents); err != nil {
			return mapError(err, "announce for executor %s", id)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM executor_tools WHERE executor_id = $1`, id); err != nil {
			return mapError(err, "drop the former tools of executor %s", id)
		}
		if err := insertOutputSchemas(ctx, tx, account, schemas); err != nil {
			return err
		}
		if err := columns.insert(ctx, tx, account, id); err != nil {
			return err
		}
		var err error
		described, err = DescribeExecutor(ctx, tx, account, id)
		return err
	})
	return described, err
}

// toolColumns are the rows of executor_tools, column by column.
type toolColumns struct {
	name    []string
	effect  []jsontext.Value
	timeout []*int64
	visible []bool
	schema  [][]byte // hash of the output schema, nil without one
	entry   []jsontext.Value
}

// announcedColumns turns the tools into columns, and collects their output schemas by hash.
func announcedColumns(tools []declaration.AnnouncedTool) (toolColumns, map[[sha256.Size]byte]jsontext.Value, error) {
	var c toolColumns
	schemas := map[[sha256.Size]byte]jsontext.Value{}
	for _, tool := range tools {
		effect, err := json.Marshal(tool.EffectProfile)
		if err != nil {
			return c, nil, err
		}
		var hash []byte
		if tool.OutputSchema != nil {
			sum := sha256.Sum256(tool.OutputSchema)
			hash = sum[:]
			schemas[sum] = tool.OutputSchema
		}
		c.name = append(c.name, tool.Name)
		c.effect = append(c.effect, effect)
		c.timeout = append(c.timeout, tool.TimeoutMS)
		c.visible = append(c.visible, tool.ModelVisible)
		c.schema = append(c.schema, hash)
		c.entry = append(c.entry, tool.Entry)
	}
	return c, schemas, nil
}

func (c toolColumns) insert(ctx context.Context, tx *Tx, account, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO executor_tools (
			executor_id, account_id, name, position, effect_profile, timeout_ms, model_visible, output_schema_hash, entry)
		SELECT $1, $2, name, position, effect_profile, timeout_ms, model_visible, output_schema_hash, entry
		FROM unnest($3::text[], $4::json[], $5::bigint[], $6::boolean[], $7::bytea[], $8::json[]) WITH ORDINALITY
			AS t (name, effect_profile, timeout_ms, model_visible, output_schema_hash, entry, position)`,
		id, account, c.name, c.effect, c.timeout, c.visible, c.schema, c.entry)
	return mapError(err, "store the tools of executor %s", id)
}

// markSchemas marks the output schemas that an executor is about to announce, and those that it announced until
// now, as in use (retention_unused.go says why). It is a transaction of its own, in the order of their hashes, so
// that announcements that share schemas do not wait for one another.
func (db *DB) markSchemas(ctx context.Context, account, executor uuid.UUID, schemas map[[sha256.Size]byte]jsontext.Value) error {
	_, err := db.Pool.Exec(ctx, `
		WITH announced AS (
			SELECT output_schema_hash AS hash FROM executor_tools WHERE executor_id = $2
			UNION
			SELECT unnest($3::bytea[])
		), stale AS (
			SELECT s.account_id, s.hash FROM output_schemas s
			WHERE s.account_id = $1 AND s.hash IN (SELECT hash FROM announced) AND s.used_at < now() - $4::interval
			ORDER BY s.hash
			FOR NO KEY UPDATE
		)
		UPDATE output_schemas s SET used_at = now()
		FROM stale
		WHERE s.account_id = stale.account_id AND s.hash = stale.hash`, account, executor, sortedHashes(schemas), markUsed)
	return mapError(err, "mark output schemas as in use")
}

func sortedHashes(schemas map[[sha256.Size]byte]jsontext.Value) [][]byte {
	var hashes [][]byte
	for sum := range schemas {
		hashes = append(hashes, bytes.Clone(sum[:]))
	}
	slices.SortFunc(hashes, bytes.Compare)
	return hashes
}

// insertOutputSchemas keeps each schema once per account, in the order of their hashes: announcements
// that share schemas would otherwise wait for one another in a circle.
func insertOutputSchemas(ctx context.Context, tx *Tx, account uuid.UUID, schemas map[[sha256.Size]byte]jsontext.Value) error {
	hashes := sortedHashes(schemas)
	documents := make([]jsontext.Value, len(hashes))
	for i, hash := range hashes {
		documents[i] = schemas[[sha256.Size]byte(hash)]
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO output_schemas (account_id, hash, document)
		SELECT $1, hash, document FROM unnest($2::bytea[], $3::json[]) AS t (hash, document)
		ON CONFLICT DO NOTHING`, account, hashes, documents)
	return mapError(err, "store output schemas")
}
