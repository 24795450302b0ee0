package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/park"
)

// DatabaseConfig says where the database is.
type DatabaseConfig struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" required:"" placeholder:"URL" secret:"" help:"Postgres, as a URL or key=value list."`
}

// PoolConfig says how much of the database one process takes.
type PoolConfig struct {
	DatabaseConnections int32 `env:"TOOLPARK_DATABASE_CONNECTIONS" default:"20" help:"Connections this process may hold."`
}

func (c PoolConfig) check() error {
	if c.DatabaseConnections < 1 {
		return errors.New("--database-connections must be at least 1")
	}
	return nil
}

// TemporalConfig says which queue this installation uses. Where the server is comes from Temporal's
// own settings: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_*, TEMPORAL_API_KEY, TEMPORAL_PROFILE.
type TemporalConfig struct {
	TaskQueue string `env:"TOOLPARK_TASK_QUEUE" default:"toolpark" help:"Temporal task queue shared by all API and worker processes."`
}

// ClientOptions are Temporal's connection settings from its own environment and file.
func (TemporalConfig) ClientOptions() (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return client.Options{}, fmt.Errorf("read Temporal's settings: %w", err)
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return options, nil
}

// kernel is what an API or worker process runs on.
func (c TemporalConfig) kernel(database DatabaseConfig, pool PoolConfig, logger *slog.Logger) (kernel.Config, error) {
	options, err := c.ClientOptions()
	return kernel.Config{
		DatabaseURL: database.DatabaseURL, Connections: pool.DatabaseConnections,
		Temporal: options, TaskQueue: c.TaskQueue, Log: logger,
	}, err
}

// ClaimConfig holds the secrets that claim tokens are made with: the same in every API process.
type ClaimConfig struct {
	ClaimSecret         ClaimSecret `env:"TOOLPARK_CLAIM_SECRET" placeholder:"SECRET" secret:"" help:"32 bytes, as base64 or hex; make one with: openssl rand -base64 32"`
	ClaimSecretPrevious ClaimSecret `env:"TOOLPARK_CLAIM_SECRET_PREVIOUS" placeholder:"SECRET" secret:"" help:"The secret before the last rotation, while its claims live."`
}

func (c ClaimConfig) check() error {
	if len(c.ClaimSecret) == 0 {
		return errors.New("set TOOLPARK_CLAIM_SECRET to 32 random bytes, the same for every API process; make them with: openssl rand -base64 32")
	}
	return nil
}

func (c ClaimConfig) tokens() park.Tokens {
	return park.Tokens{Secret: c.ClaimSecret, Previous: c.ClaimSecretPrevious}
}

// ClaimSecret is a key of 32 bytes; empty when it is not set.
type ClaimSecret []byte

const claimSecretBytes = 32

// UnmarshalText reads base64, of either alphabet and with or without padding, or hex. An empty
// variable is one that is not set.
func (s *ClaimSecret) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	decoders := []func(string) ([]byte, error){
		hex.DecodeString,
		base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(string(text)); err == nil && len(key) == claimSecretBytes {
			*s = key
			return nil
		}
	}
	return fmt.Errorf("must be %d bytes as base64 or hex", claimSecretBytes)
}

// LogConfig says what is logged and how.
type LogConfig struct {
	LogLevel  slog.Level `env:"TOOLPARK_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string     `env:"TOOLPARK_LOG_FORMAT" default:"json" enum:"json,text" help:"json or text."`
}

// Logger writes to standard error.
func (c LogConfig) Logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

// ListenConfig says where the API answers and how long it takes to stop.
type ListenConfig struct {
	Listen       string        `env:"TOOLPARK_LISTEN" default:":8080" help:"Address to serve on."`
	ShutdownTime time.Duration `env:"TOOLPARK_SHUTDOWN_TIME" default:"30s" help:"How long requests may take to finish at shutdown."`
}

// HealthConfig says where a worker answers whoever looks after it.
type HealthConfig struct {
	WorkerListen string `env:"TOOLPARK_WORKER_LISTEN" placeholder:"ADDRESS" help:"Address on which a worker answers GET /healthz and /readyz. Default: none."`
}

// ConfigCmd prints the settings in effect.
type ConfigCmd struct {
	DatabaseConfig `embed:""`
	PoolConfig     `embed:""`
	TemporalConfig `embed:""`
	ClaimConfig    `embed:""`
	ListenConfig   `embed:""`
	HealthConfig   `embed:""`
	LogConfig      `embed:""`
}

// Run prints one line a setting: its value, and the variable that sets it.
func (c *ConfigCmd) Run(command *kong.Context) error {
	temporal, err := c.ClientOptions()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, flag := range command.Selected().Flags {
		variable := ""
		if len(flag.Envs) > 0 {
			variable = flag.Envs[0]
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", flag.Name, shown(flag), variable)
	}
	fmt.Fprintf(out, "temporal-address\t%s\tTEMPORAL_ADDRESS\n", temporal.HostPort)
	fmt.Fprintf(out, "temporal-namespace\t%s\tTEMPORAL_NAMESPACE\n", temporal.Namespace)
	return out.Flush()
}

// shown is a setting's value for a reader. Of a secret only a URL's harmless parts are.
func shown(flag *kong.Flag) string {
	value := flag.Target.Interface()
	if !flag.Tag.Has("secret") {
		return fmt.Sprint(value)
	}
	if flag.Target.Len() == 0 {
		return ""
	}
	if text, ok := value.(string); ok {
		if u, err := url.Parse(text); err == nil && u.Scheme != "" && u.RawQuery == "" {
			return u.Redacted()
		}
	}
	return "(set)"
}
