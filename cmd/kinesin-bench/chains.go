package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
)

func (a *app) chains() *cobra.Command {
	b := load.ChainsConfig{Chains: 10_000, Steps: 10, Slots: 100, Rate: 1000, Duration: 10 * time.Second, Ahead: 15 * time.Second}
	g := load.GroupsConfig{Groups: 100, Members: 10_000, Ahead: 90 * time.Second}
	c := &cobra.Command{
		Use:   "chains",
		Short: "Run chains that all begin at once, as many tasks without chains, and groups",
		Long: `Schedules chains that all begin --ahead from now, then as many plain tasks, then chains that begin at random milliseconds, --rate steps a
second, and then groups as "kinesin-bench groups" does, on a server of its own in a process of its own, or the one that --server names. It
measures steps a second, their ratio to that of plain tasks with the same worker, and how long after the end of a step the next one starts.`,
	}
	f := c.Flags()
	f.IntVar(&b.Chains, "chains", b.Chains, "how many chains")
	f.IntVar(&b.Steps, "steps", b.Steps, "tasks of each chain")
	f.IntVar(&b.Slots, "workers", b.Slots, "how many tasks run at a time")
	f.IntVar(&b.Rate, "rate", b.Rate, "steps a second while lateness is measured")
	f.DurationVar(&b.Duration, "duration", b.Duration, "how long that is")
	f.DurationVar(&b.Ahead, "ahead", b.Ahead, "how far ahead chains begin; all have to be scheduled by then")
	f.IntVar(&g.Groups, "groups", g.Groups, "how many groups; 0: none")
	f.IntVar(&g.Members, "members", g.Members, "members of each group")
	f.DurationVar(&g.Ahead, "groups-ahead", g.Ahead, "how far ahead members are due; all have to be scheduled by then")
	check := func() error {
		g.Slots = b.Slots
		if g.Groups == 0 {
			return b.Validate()
		}
		return errors.Join(b.Validate(), g.Validate())
	}
	return a.measuring(c, check, func(ctx context.Context) error {
		return a.on(ctx, "", func(s *load.Server) error {
			b.Server, b.Lambda, b.Progress = s, newLambda("bench"), a.note
			r, err := load.RunChains(ctx, b)
			if err == nil && g.Groups > 0 {
				g.Server, g.Lambda, g.Progress = s, newLambda("bench"), a.note
				var groups load.GroupsReport
				groups, err = load.RunGroups(ctx, g)
				r.Groups = &groups
			}
			return a.print(&r, err)
		})
	})
}

func (a *app) groups() *cobra.Command {
	b := load.GroupsConfig{Groups: 10, Slots: 1000, Ahead: 15 * time.Second}
	tasks := 10_000
	c := &cobra.Command{
		Use:   "groups",
		Short: "Run groups whose members are all due at once, and as many tasks without groups",
		Long: `Schedules groups of members that are all due --ahead from now, and then as many tasks without groups, on a server of its own in a
process of its own, or those that --server names. It measures how fast they end, and how long after the last member of a group its follow-up
starts.`,
	}
	f := c.Flags()
	f.IntVar(&b.Groups, "groups", b.Groups, "how many groups")
	f.IntVarP(&tasks, "tasks", "n", tasks, "members of all groups together")
	f.IntVar(&b.Slots, "workers", b.Slots, "how many tasks run at a time")
	f.DurationVar(&b.Ahead, "ahead", b.Ahead, "how far ahead they are due; all have to be scheduled by then")
	check := func() error {
		b.Members = tasks / max(b.Groups, 1)
		return b.Validate()
	}
	return a.measuring(c, check, func(ctx context.Context) error {
		return a.on(ctx, "", func(s *load.Server) error {
			b.Server, b.Lambda, b.Progress = s, newLambda("bench"), a.note
			r, err := load.RunGroups(ctx, b)
			return a.print(&r, err)
		})
	})
}
