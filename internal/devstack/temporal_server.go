package devstack

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolpark/toolpark/internal/visibility"
)

// The production server and what sets up its databases, from the module of the development server.
var (
	temporalServer = buildTool{name: "temporal-server", module: "go.temporal.io/server", program: "go.temporal.io/server/cmd/server"}
	sqlTool        = buildTool{name: "temporal-sql-tool", module: "go.temporal.io/server", program: "go.temporal.io/server/cmd/tools/sql"}
)

//go:embed temporal_server.yaml
var serverConfig string

// serverSettings fill in [serverConfig].
type serverSettings struct {
	SocketDir     string
	Dynamic       string // the file of the dynamic configuration
	Frontend      int    // ports: gRPC, then membership, of each service
	FrontendRing  int
	History       int
	HistoryRing   int
	Matching      int
	MatchingRing  int
	Internal      int
	InternalRing  int
	MaxConnection int
}

// The server's databases, and the folders of their schemas in its module.
const (
	temporalDatabase   = "temporal"
	visibilityDatabase = "temporal_visibility"
	temporalSchema     = "postgresql/v12/temporal"
	visibilitySchema   = "postgresql/v12/visibility"
)

// prepareProduction sets up the databases of a production server in Postgres and writes its configuration.
// Each start has databases of its own: those of an earlier one are dropped.
func (t *Temporal) prepareProduction(ctx context.Context, options TemporalOptions) (err error) {
	if options.Postgres.cluster == nil {
		return errors.New("a Temporal server on Postgres needs a Postgres that was started here")
	}
	if t.program, err = temporalServer.path(ctx, options.Progress); err != nil {
		return err
	}
	tool, err := sqlTool.path(ctx, options.Progress)
	if err != nil {
		return err
	}
	if err := t.temporaryDir(); err != nil {
		return err
	}
	t.bare = true
	socketDir := options.Postgres.cluster.socketDir
	if err := setUp(ctx, tool, socketDir, temporalDatabase, temporalSchema); err != nil {
		return err
	}
	if err := setUp(ctx, tool, socketDir, visibilityDatabase, visibilitySchema); err != nil {
		return err
	}
	settings := serverSettings{SocketDir: socketDir, Dynamic: filepath.Join(t.dir, "dynamic.yaml"), MaxConnection: 40}
	for _, port := range []*int{
		&settings.Frontend, &settings.FrontendRing, &settings.History, &settings.HistoryRing,
		&settings.Matching, &settings.MatchingRing, &settings.Internal, &settings.InternalRing,
	} {
		if *port, err = freePort(0, false); err != nil {
			return err
		}
	}
	t.Address = "127.0.0.1:" + strconv.Itoa(settings.Frontend)
	t.args = []string{"--root", t.dir, "--config", ".", "--env", "toolpark", "--allow-no-auth", "start"}
	return settings.write(t.dir)
}

// setUp makes one database with the server's current schema.
func setUp(ctx context.Context, tool, socketDir, database, schema string) error {
	for _, step := range [][]string{
		{"drop-database", "--force"},
		{"create-database"},
		{"setup-schema", "--version", "0.0"},
		{"update-schema", "--schema-name", schema},
	} {
		// A host in the attributes outranks the address.
		args := append([]string{
			"--plugin", "postgres12_pgx", "--endpoint", "127.0.0.1", "--port", "5432", "--user", "postgres",
			"--db", database, "--connect-attributes", "host=" + socketDir,
		}, step...)
		if out, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil && step[0] != "drop-database" {
			return fmt.Errorf("set up database %s: %s: %w\n%s", database, step[0], err, out)
		}
	}
	return nil
}

// write puts the configuration where the server looks for it.
func (s serverSettings) write(dir string) error {
	var config, dynamic strings.Builder
	if err := template.Must(template.New("server").Parse(serverConfig)).Execute(&config, s); err != nil {
		return err
	}
	for _, setting := range settings {
		fmt.Fprintf(&dynamic, "%s:\n  - value: %d\n", setting.name, setting.value)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "toolpark.yaml"), []byte(config.String()), 0o600),
		os.WriteFile(s.Dynamic, []byte(dynamic.String()), 0o600),
	)
}

// registerNamespace gives a bare server what a development server comes with.
func registerNamespace(ctx context.Context, c client.Client) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if _, ok := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !ok {
		return err
	}
	return visibility.Register(ctx, c, client.DefaultNamespace)
}
