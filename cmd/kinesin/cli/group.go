package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) groupCommand() *cobra.Command {
	n := a.groups()
	return group(&cobra.Command{
		Use:   "group",
		Short: "Have a task follow when all of many tasks have ended",
		Long: `A group has a task follow when it is sealed and all of its members, which are tasks like any other, have ended
(docs/concepts/chains.md#groups).`,
	}, a.groupCreateCommand(), a.groupAddCommand(), a.groupSealCommand(), a.groupCancelCommand(), a.groupMembersCommand(),
		n.getCommand(a, &cobra.Command{Short: "Show a group, with its members counted by state"}))
}

func (a *app) groupCreateCommand() *cobra.Command {
	var then, otherwise, finally string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "create [--then FILE|-] [--else FILE|-] [--finally FILE|-] [--expires-in D]",
		Short: "Create an empty group and print its id",
		Long: `Creates an empty group and prints its id. The files have tasks as 'kinesin schedule --then' reads them. --then follows when
all members have ended; with --else or --finally, only if all succeeded. --else follows otherwise, or when the group expired
or was cancelled; --finally in any case.`,
		Example: `  echo '{"lambda":"report","payload":{"run":7}}' | kinesin group create --then -
  kinesin group create --then report.json --else alarm.json --finally tidy.json --expires-in 2d`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&then, "then", "", "read the tasks that follow from `FILE`, - for stdin")
	c.Flags().StringVar(&otherwise, "else", "", "read the tasks that follow if a member did not succeed from `FILE`, - for stdin")
	c.Flags().StringVar(&finally, "finally", "", "read the tasks that follow in any case from `FILE`, - for stdin")
	c.Flags().Var(durationValue{d: &expires, min: time.Second, max: 366 * 24 * time.Hour}, "expires-in", "the group expires after `D` if it is not done; 30d when not set")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		if then == "" && otherwise == "" && finally == "" {
			return usagef("--then is missing: want a file with the tasks that follow in --then, --else or --finally")
		}
		if strings.Count("\n"+then+"\n\n"+otherwise+"\n\n"+finally+"\n", "\n-\n") > 1 {
			return usagef("only one of --then, --else and --finally can be read from stdin")
		}
		var spec sdk.GroupSpec
		for _, list := range [][2]string{{"then", then}, {"else", otherwise}, {"finally", finally}} {
			item, err := a.readFollow(list[0], list[1], func(data []byte) (*kinesinv1.ScheduleItem, error) { return edgeIn(list[0], data) })
			if err != nil {
				return err
			}
			spec.Then, spec.Else, spec.Finally = append(spec.Then, item.Then...), append(spec.Else, item.Else...), append(spec.Finally, item.Finally...)
		}
		if expires > 0 {
			spec.Expires = clock.Real().Now().Time().Add(expires)
		}
		g, err := k.CreateGroup(ctx, spec)
		if err != nil {
			return err
		}
		return a.print(wirecopy.To[kinesinv1.Group](&g), "%s", g.ID)
	})
}

func (a *app) groupAddCommand() *cobra.Command {
	var s scheduleFlags
	var lambda string
	at := -1
	c := &cobra.Command{
		Use:   "add ID --lambda L [--payload TEXT] [flags]\n  kinesin group add ID [--lambda L] --batch FILE|- [--offset N]",
		Short: "Schedule members of a group",
		Long: `Schedules a task as a member, or with --batch one for each line of a file, and prints their ids. A call of up to 1,000 lines
adds all of them or none. A repeated command with the same --offset adds nothing twice.`,
		Args: one("ID"),
	}
	f := c.Flags()
	s.addTask(f)
	f.StringVar(&lambda, "lambda", "", "`NAME` of the lambda; with --batch, for lines that name none")
	f.Var(intValue{n: &at, min: 0, max: sdk.GroupMembersMax}, "offset", "the group has `N` members before; what it has when not set")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if at < 0 {
			g, err := k.GetGroup(ctx, args[0])
			if err != nil {
				return err
			}
			at = g.Members
		}
		if s.batch != "" {
			if err := s.refuseBeside(); err != nil {
				return err
			}
			return a.addBatch(ctx, k, args[0], lambda, s.batch, at)
		}
		if lambda == "" {
			return usagef("--lambda is missing: want the lambda of the member, or --batch")
		}
		item, err := s.task(f, lambda)
		if err != nil {
			return err
		}
		if err := a.readFiles(f, &s, &item); err != nil {
			return err
		}
		var added *kinesinv1.AddMembersResponse
		err = over(k).AddMembers(ctx, args[0], at, []sdk.Item{item}, func(r *kinesinv1.AddMembersResponse) { added = r })
		if err != nil {
			return err
		}
		if s.dueNote != "" && !a.json() {
			a.note("%s", s.dueNote)
		}
		return a.print(added, "%s", first(added.GetIds()))
	})
}

// addBatch adds a member for each line of a file.
func (a *app) addBatch(ctx context.Context, k *sdk.Client, id, lambda, path string, at int) error {
	r, err := a.open(path)
	if err != nil {
		return fmt.Errorf("read the batch: %w", err)
	}
	defer r.Close()
	begun := at
	err = cut(ctx, r, func(c *chunk) error {
		items := make([]sdk.Item, len(c.lines))
		for i := range c.lines {
			item, err := parseLine(&c.lines[i], lambda)
			if err == nil && item.Key != "" {
				err = fmt.Errorf(`"key" is not for members of a group`)
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", c.lines[i].number, err)
			}
			items[i] = item
		}
		if err := a.addLines(ctx, k, id, at, items); err != nil {
			return fmt.Errorf("lines %d to %d: %w", c.lines[0].number, c.lines[len(c.lines)-1].number, err)
		}
		at += len(items)
		return nil
	})
	if err != nil && at > begun {
		return fmt.Errorf("%d members were added before; go on with the lines after them and --offset %d: %w", at-begun, at, err)
	}
	return err
}

// addLines adds members of lines, and prints them, as HTTP answers a batch.
func (a *app) addLines(ctx context.Context, k *sdk.Client, id string, at int, items []sdk.Item) error {
	var out bytes.Buffer
	err := over(k).AddMembers(ctx, id, at, items, func(r *kinesinv1.AddMembersResponse) {
		for _, member := range r.GetIds() {
			if a.json() {
				appendLine(&out, jsonform.Append(nil, &kinesinv1.ScheduleResult{Id: member, Duplicate: r.GetDuplicate()}), "index", at)
			} else {
				fmt.Fprintln(&out, member)
			}
			at++
		}
	})
	_, printErr := out.WriteTo(a.Stdout)
	return cmp.Or(err, printErr)
}

func (a *app) groupSealCommand() *cobra.Command {
	members := -1
	c := &cobra.Command{
		Use:   "seal ID [--members N]",
		Short: "Say that a group gets no more members",
		Long:  `Says that a group gets no more members: what follows starts when all of them have ended, or at once if there are none.`,
		Args:  one("ID"),
	}
	c.Flags().Var(intValue{n: &members, min: 0, max: sdk.GroupMembersMax}, "members", "refuse unless the group has `N` members; 0: unless it has none")
	return a.groups().action(a, c, func(ctx context.Context, c *calls, id string) (*kinesinv1.Group, error) {
		request := &kinesinv1.SealGroupRequest{Group: id}
		if members >= 0 {
			request.Members = new(uint32(members))
		}
		r, err := ask(ctx, c, "seal group", c.Groups.SealGroup, request)
		return r.GetGroup(), err
	})
}

func (a *app) groupCancelCommand() *cobra.Command {
	var s setFlags
	c := &cobra.Command{
		Use:   "cancel ID [--pace N] [--detach]",
		Short: "Seal a group and cancel its members",
		Long: `Seals a group and has a job on the server cancel its members. When all have ended, the tasks of --else and --finally follow,
and those of --then if there are no others.`,
		Args: one("ID"),
	}
	c.Flags().Var(intValue{n: &s.pace, max: 1_000_000}, "pace", "cancel at most `N` members per second; no limit when not set")
	c.Flags().BoolVar(&s.detach, "detach", false, "print the job and do not wait for its end")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		c := over(k)
		r, err := ask(ctx, c, "cancel group", c.Groups.CancelGroup, &kinesinv1.CancelGroupRequest{
			Group: args[0], Pace: uint32(s.pace), RequestId: c.RequestID(),
		})
		if err != nil {
			return err
		}
		s.pace = int(r.GetJob().GetPace()) // groups have no recovery quota
		return a.printSet(ctx, c, r.GetJob(), &s)
	})
}

func (a *app) printGroup(g *kinesinv1.Group) error {
	cancelled := ""
	if g.GetCancelled() != 0 {
		cancelled = instantText(g.GetCancelled()) + " by " + cmp.Or(g.GetCancelledBy(), "anonymous")
	}
	t := newTable(a.Stdout)
	t.facts([][2]string{
		{"id", g.GetId()},
		{"state", g.GetState()},
		{"members", strconv.Itoa(int(g.GetMembers()))},
		{"counts", memberCountsText(g)},
		{"created", instantText(g.GetCreated()) + " by " + cmp.Or(g.GetCreatedBy(), "anonymous")},
		{"expires", instantText(g.GetExpires())},
		{"cancelled", cancelled},
		{"completed", instantText(g.GetCompleted())},
	})
	for _, f := range g.GetFollowUps() {
		text := f.GetLambda()
		switch {
		case f.GetId() != "":
			text += " " + f.GetId()
		case f.GetProblem() != "":
			text += ": " + f.GetProblem()
		case g.GetCompleted() != 0:
			text += ", which did not follow"
		}
		t.fact(f.GetEdge(), text)
	}
	if len(g.GetFollowUps()) == 0 || g.GetFollowUp() == "" {
		t.fact("problem", g.GetProblem())
	}
	return t.Flush()
}

func memberCountsText(g *kinesinv1.Group) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(g.GetCounts())) {
		parts = append(parts, fmt.Sprintf("%s %d", state, g.GetCounts()[state]))
	}
	if g.GetCounted() < g.GetMembers() {
		parts = append(parts, fmt.Sprintf("not counted yet %d", g.GetMembers()-g.GetCounted()))
	}
	return strings.Join(parts, ", ")
}

func (a *app) groupMembersCommand() *cobra.Command {
	return a.watching(&cobra.Command{
		Use:   "members ID",
		Short: "List the members of a group in their order, with their results",
		Long:  "Lists the members of a group in their order, with their results; with -o json, each on a line.",
		Args:  one("ID"),
	}, func(ctx context.Context, k *sdk.Client, args []string) error {
		c, t := over(k), newTable(a.Stdout)
		for request := (&kinesinv1.ListMembersRequest{Group: args[0], Limit: api.MembersListMax}); ; {
			r, err := ask(ctx, c, "list members of a group", c.Groups.ListMembers, request)
			if err != nil {
				return err
			}
			for _, m := range r.GetMembers() {
				var err error
				switch id := m.GetTask().GetId(); {
				case a.json():
					err = printJSON(a.Stdout, m)
				case a.output == formatName:
					err = a.printLine(id)
				default:
					t.row(strconv.Itoa(int(m.GetIndex())), dash(id), dash(m.GetTask().GetLambda()), dash(m.GetTask().GetState()))
				}
				if err != nil {
					return err
				}
			}
			if request.From = r.GetNext(); !r.GetMore() {
				return t.Flush()
			}
		}
	})
}

// groupText returns how a group ended as the command of a task that follows gets it.
func groupText(g *sdk.GroupEnd) string {
	if g == nil {
		return ""
	}
	text, _ := json.Marshal(groupEndObject{g.ID, g.Members, g.Succeeded(), g.Ended, g.Expired, g.Cancelled}) // texts and numbers never fail
	return string(text)
}

type groupEndObject struct {
	ID        string            `json:"id"`
	Members   int               `json:"members"`
	Succeeded int               `json:"succeeded"`
	Ended     map[sdk.State]int `json:"ended"`
	Expired   bool              `json:"expired"`
	Cancelled bool              `json:"cancelled,omitempty"`
}
