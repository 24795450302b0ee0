package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Between two kills passes a moment, and what was killed stays away for another.
const (
	minPause = 500 * time.Millisecond
	maxPause = 3 * time.Second
	maxAway  = 3 * time.Second
)

// victim is a process that can be killed and started again.
type victim struct {
	name  string
	kill  func() error
	start func(context.Context) error
}

// killer kills one of its victims after the other. Killers work side by side, so several processes may be
// away at once.
type killer struct {
	random  *rand.Rand
	victims []victim
	kills   map[string]int
}

func newKiller(seed, number uint64, victims []victim) *killer {
	return &killer{random: rand.New(rand.NewPCG(seed, number)), victims: victims, kills: map[string]int{}}
}

// run kills until killing ends. When it returns nil its victims are up.
func (k *killer) run(ctx, killing context.Context) error {
	for {
		v := k.victims[k.random.IntN(len(k.victims))]
		pause := minPause + k.between(maxPause-minPause)
		away := k.between(maxAway)
		select {
		case <-killing.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		fmt.Printf("killing %s for %.1f s\n", v.name, away.Seconds())
		if err := v.kill(); err != nil {
			return fmt.Errorf("kill %s: %w", v.name, err)
		}
		k.kills[v.name]++
		time.Sleep(away)
		if err := v.start(ctx); err != nil {
			return fmt.Errorf("start %s again: %w", v.name, err)
		}
	}
}

// between draws a time; short ones are as likely as long ones on every scale.
func (k *killer) between(limit time.Duration) time.Duration {
	return time.Duration(k.random.Float64() * k.random.Float64() * float64(limit))
}

func (k *killer) print() {
	for _, name := range slices.Sorted(maps.Keys(k.kills)) {
		fmt.Printf("killed %-9s %3d times\n", name, k.kills[name])
	}
}
