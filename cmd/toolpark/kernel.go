package main

import (
	"context"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/schema"
	"github.com/toolpark/toolpark/workflows"
)

// compiledSchemas is how many compiled JSON Schemas one process keeps.
const compiledSchemas = 4096

// kernel is what the API and the worker share: the database, the hub that wakes waiters, the park, and
// the way to Temporal.
type kernel struct {
	db        *postgres.DB
	hub       *notify.Hub
	park      *park.Park
	temporal  client.Client
	delivery  *workflows.Delivery
	namespace string
	stop      func()
}

// openKernel opens everything without connecting: a process may start before what it depends on.
func openKernel(ctx context.Context, database DatabaseConfig, pool PoolConfig, t TemporalConfig, tokens park.Tokens, logger *slog.Logger) (*kernel, error) {
	options, err := t.ClientOptions()
	if err != nil {
		return nil, err
	}
	options.Logger = log.NewStructuredLogger(logger)
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("use Temporal's settings: %w", err)
	}
	db, err := postgres.Open(ctx, database.DatabaseURL, pool.DatabaseConnections)
	if err != nil {
		temporal.Close()
		return nil, err
	}
	hub := notify.NewHub(logger, db.Recheck)
	listening, stopHub := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := hub.Run(listening, db.Pool); err != nil {
			logger.Error("the hub stopped; waiters recheck no more", "error", err)
		}
	}()
	k := &kernel{
		db: db, hub: hub, temporal: temporal, namespace: options.Namespace,
		park:     &park.Park{DB: db, Hub: hub, Schemas: schema.NewCache(compiledSchemas), Tokens: tokens},
		delivery: workflows.NewDelivery(temporal, t.TaskQueue, logger),
	}
	k.stop = func() {
		k.delivery.Close()
		stopHub()
		<-stopped
		db.Close()
		temporal.Close()
	}
	return k, nil
}
