package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/schema/migrations"
)

// registerTime is how long Temporal may take to make search attributes usable.
const registerTime = time.Minute

// MigrateCmd prepares the database and Temporal. It may run in several places at once, and again.
type MigrateCmd struct {
	DatabaseConfig `embed:""`
	TemporalConfig `embed:""`
}

// Run applies the migrations, then registers the search attributes and waits until they are usable.
func (c *MigrateCmd) Run(ctx context.Context) error {
	applied, err := migrations.Up(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	for _, name := range applied {
		fmt.Println("applied", name)
	}
	fmt.Println("the database schema is up to date")

	options, err := c.ClientOptions()
	if err != nil {
		return err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("reach Temporal at %s: %w", options.HostPort, err)
	}
	defer temporal.Close()
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	if err := visibility.Register(ctx, temporal, options.Namespace); err != nil {
		return err
	}
	fmt.Printf("the search attributes of namespace %s are usable\n", options.Namespace)
	return nil
}
