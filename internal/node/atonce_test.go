package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// race is a call that callers make at once, after the calls before. In all of them N stands for a name of the
// round, R for a request id of the round, I for the last id in the answers before, and in the call itself C
// for what differs between callers.
type race struct {
	before []string // each a procedure, a space and a body
	body   string
}

const (
	raceTask      = `TaskService/Schedule {"items":[{"lambda":"mail","key":"N","delay":"1h"}]}`
	raceCancelled = `TaskService/Cancel {"ids":["I"]}`
	raceWorker    = `WorkerService/Register {"name":"N","groups":[{"lambdas":["mail"],"slots":1}]}`
	raceCron      = `CronService/SetCron {"name":"N","lambda":"mail","schedule":"@daily"}`
	raceGroup     = `GroupService/CreateGroup {"then":[{"lambda":"mail"}]}`
	raceJob       = `JobService/CreateJob {"action":"reschedule","where":"lambda=mail","by":"1ms","pace":1}`
	raceChain     = `TaskService/Schedule {"items":[{"lambda":"mail","delay":"1h","then":[{"lambda":"mail"}]}]}`
	raceGate      = `GateService/SetGate {"action":"pause","lambda":"mail","collection":"N","reason":"x"}`
	raceObjective = `ObjectiveService/SetObjective {"lambda":"N","within":"5s","objective":99}`
	raceLambda    = `LambdaService/CreateLambda {"name":"N"}`
)

func raceKeyed(onConflict string) string {
	return `{"items":[{"lambda":"mail","key":"N","payload":"C","delay":"1h","on_conflict":"` + onConflict + `"}]}`
}

// races has calls of each procedure that changes something. TestCallsAtOnce fails without one.
func races() map[string][]race {
	return map[string][]race{
		"TaskService/Schedule": {
			{nil, raceKeyed("replace")},
			{[]string{raceTask}, raceKeyed("replace")},
			{[]string{raceTask, raceCancelled}, raceKeyed("replace")},
			{[]string{raceTask, raceCancelled}, raceKeyed("keep")},
			{[]string{raceTask, raceCancelled}, raceKeyed("reject")},
			{nil, `{"items":[{"lambda":"mail","key":"N","payload":"C","on_conflict":"replace"}]}`},
			{nil, `{"items":[{"lambda":"mail","request_id":"R","payload":"C"}]}`},
		},
		"TaskService/Cancel":     {{[]string{raceTask}, `{"ids":["I"]}`}},
		"TaskService/Wait":       {{[]string{raceTask}, `{"ids":["I"],"wait":"1us"}`}},
		"TaskService/Reschedule": {{[]string{raceTask}, `{"ids":["I"],"delay":"2h"}`}, {[]string{raceTask}, `{"ids":["I"]}`}},
		"TaskService/Update": {
			{[]string{raceTask}, `{"updates":[{"id":"I","payload":"C"}]}`},
			{[]string{raceTask}, `{"updates":[{"id":"I","priority":"high","delay":"2h"}]}`},
		},
		"TaskService/Redrive":                 {{[]string{raceTask, raceCancelled}, `{"ids":["I"]}`}, {[]string{raceTask, raceCancelled}, `{"ids":["I"],"payload":"C"}`}},
		"JobService/CreateJob":                {{nil, `{"action":"cancel","where":"lambda=mail and key=N","request_id":"R"}`}},
		"JobService/ControlJob":               {{[]string{raceJob}, `{"id":"I","action":"pause"}`}, {[]string{raceJob}, `{"id":"I","action":"stop"}`}},
		"DeadLetterService/ListDeadLetters":   {{nil, `{"lambda":"mail"}`}},
		"DeadLetterService/ChangeDeadLetters": {{nil, `{"action":"delete","lambda":"mail"}`}},
		"LambdaService/CreateLambda":          {{nil, `{"name":"N"}`}},
		"LambdaService/UpdateLambda":          {{[]string{raceLambda}, `{"name":"N","max_attempts":7}`}},
		"LambdaService/DeleteLambda":          {{[]string{raceLambda}, `{"name":"N"}`}},
		"WorkerService/Register":              {{nil, `{"name":"N","groups":[{"lambdas":["mail"],"slots":1}]}`}},
		"WorkerService/Claim":                 {{[]string{raceWorker}, `{"worker":"I","lambdas":["mail"],"wait":"1us"}`}},
		"WorkerService/SetResults":            {{[]string{raceWorker}, `{"worker":"I","results":[{"claim":"01920000000070008000000000000000-1","outcome":"success"}]}`}},
		"WorkerService/Heartbeat":             {{[]string{raceWorker}, `{"worker":"I"}`}},
		"WorkerService/Leave":                 {{[]string{raceWorker}, `{"worker":"I"}`}},
		"InboundService/RetryRejected":        {{nil, `{"names":["N"]}`}},
		"InboundService/DeleteRejected":       {{nil, `{"names":["N"]}`}},
		"InboundService/Key":                  {{nil, `{}`}},
		"KeyringService/RotateKeys":           {{nil, `{}`}},
		"KeyringService/AddSender":            {{nil, `{"name":"N","lambdas":["mail"]}`}},
		"KeyringService/RevokeSender":         {{[]string{`KeyringService/AddSender {"name":"N","lambdas":["mail"]}`}, `{"name":"N"}`}},
		"AccessService/CreateToken":           {{nil, `{"name":"N","grants":["read:mail"]}`}},
		"AccessService/RevokeToken":           {{[]string{`AccessService/CreateToken {"name":"N","grants":["read:mail"]}`}, `{"name":"N"}`}},
		"AccessService/VerifyAudit":           {{nil, `{}`}},
		"GateService/SetGate":                 {{nil, `{"action":"pause","lambda":"mail","collection":"N","reason":"C","request_id":"R"}`}},
		"GateService/ResumeGate":              {{[]string{raceGate}, `{"id":"I"}`}, {[]string{raceGate}, `{"id":"I","pace":5}`}},
		"CronService/SetCron": {
			{nil, `{"name":"N","lambda":"mail","schedule":"@daily","payload":"C"}`},
			{[]string{raceCron}, `{"name":"N","lambda":"mail","schedule":"@hourly","payload":"C","version":1}`},
		},
		"CronService/PauseCron":            {{[]string{raceCron}, `{"name":"N","reason":"C"}`}},
		"CronService/ResumeCron":           {{[]string{raceCron, `CronService/PauseCron {"name":"N","reason":"x"}`}, `{"name":"N"}`}},
		"CronService/RunCron":              {{[]string{raceCron}, `{"name":"N","request_id":"R"}`}, {[]string{raceCron}, `{"name":"N"}`}},
		"CronService/BackfillCron":         {{[]string{raceCron}, `{"name":"N","from":"2001-01-01T00:00:00Z","to":"2001-01-02T00:00:00Z","request_id":"R"}`}},
		"CronService/DeleteCron":           {{[]string{raceCron}, `{"name":"N"}`}},
		"ChainService/ControlChain":        {{[]string{raceChain}, `{"id":"I","action":"pause"}`}, {[]string{raceChain}, `{"id":"I","action":"cancel"}`}},
		"QuotaService/SetQuota":            {{nil, `{"lambda":"mail","rate":100}`}},
		"ObjectiveService/SetObjective":    {{nil, `{"lambda":"mail","within":"5s","objective":99}`}},
		"ObjectiveService/DeleteObjective": {{[]string{raceLambda, raceObjective}, `{"lambda":"N"}`}},
		"GroupService/CreateGroup":         {{nil, `{"then":[{"lambda":"mail"}],"request_id":"R"}`}},
		"GroupService/AddMembers":          {{[]string{raceGroup}, `{"group":"I","items":[{"lambda":"mail","payload":"C"}]}`}, {[]string{raceGroup}, `{"group":"I","items":[{"lambda":"mail"}]}`}},
		"GroupService/SealGroup":           {{[]string{raceGroup}, `{"group":"I"}`}},
		"GroupService/CancelGroup":         {{[]string{raceGroup}, `{"group":"I"}`}},
	}
}

// lockstep is a driver whose callers all read before one of them writes, and whose writes come one by one: of
// callers that begin together all but one see a row that has changed.
type lockstep struct {
	store.Driver

	on atomic.Bool
}

func (l *lockstep) pause() {
	if l.on.Load() {
		time.Sleep(time.Millisecond)
	}
}

func (l *lockstep) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	l.pause()
	return l.Driver.Apply(ctx, ops)
}

func (l *lockstep) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	defer l.pause()
	return l.Driver.Tasks(ctx, ids)
}

func (l *lockstep) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	defer l.pause()
	return l.Driver.Controls(ctx, kind, name)
}

func (l *lockstep) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	defer l.pause()
	return l.Driver.Wakeups(ctx, keys)
}

// idInAnswer finds what a later call names.
var idInAnswer = regexp.MustCompile(`"(?:id|worker)":"([^"]+)"`)

// TestCallsAtOnce has 16 callers make each changing call at once on the same thing. Each of them is served, or
// refused for a reason: what another call changed meanwhile is no failure of the server.
func TestCallsAtOnce(t *testing.T) {
	step := &lockstep{}
	d := drivers{over: func(d store.Driver) store.Driver {
		step.Driver = d
		return step
	}}
	later := func(c *Config) {
		time.Sleep(2 * 366 * 24 * time.Hour) // a bubble begins in 2000, and times in JSON in 2001
		c.Buffer = buffertest.NewMemory(clock.Real())
	}
	inRig(t, d, 1, later, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Priorities: []string{"high", "low"}})
		known, round := races(), 0
		for _, service := range api.Services() {
			for m := range service.Methods().Len() {
				method := service.Methods().Get(m)
				if !changes(method) {
					continue
				}
				name := string(method.Parent().Name()) + "/" + string(method.Name())
				if len(known[name]) == 0 {
					t.Errorf("%s: no call of it is made at once", name)
				}
				for _, c := range known[name] {
					round++
					step.on.Store(false)
					fill := r.prepare(round, c.before)
					step.on.Store(true)
					r.atOnce(name, func(i int) string {
						return strings.ReplaceAll(fill(c.body), `"C"`, strconv.Quote(fmt.Sprint("of caller ", i)))
					})
				}
			}
		}
		step.on.Store(false)
	})
}

// changes reports whether a procedure, which is no stream, may change something.
func changes(m protoreflect.MethodDescriptor) bool {
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS && !m.IsStreamingServer()
}

// prepare makes the calls before a race, and returns what fills the names of its round in.
func (r *rig) prepare(round int, before []string) (fill func(string) string) {
	r.Helper()
	request := [16]byte{6: 0x70, 8: 0x80, 14: byte(round >> 8), 15: byte(round)}
	id := ""
	fill = func(text string) string {
		return strings.NewReplacer(
			`"N"`, fmt.Sprintf(`"n%d"`, round), `=N`, fmt.Sprintf("=n%d", round),
			`"R"`, strconv.Quote(hex.EncodeToString(request[:])), `"I"`, strconv.Quote(id),
		).Replace(text)
	}
	for _, call := range before {
		procedure, body, _ := strings.Cut(call, " ")
		answer := r.json(procedure, fill(body))
		if strings.Contains(answer, `"code":`) || strings.Contains(answer, `"problem":`) {
			r.Fatalf("%s %s: %s", procedure, fill(body), answer)
		}
		if found := idInAnswer.FindStringSubmatch(answer); found != nil {
			id = found[1]
		}
	}
	return fill
}

// atOnce makes a call as 16 callers, none of whom may learn of an internal error.
func (r *rig) atOnce(procedure string, body func(i int) string) {
	r.Helper()
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			if answer := r.json(procedure, body(i)); strings.Contains(answer, `"code":"internal"`) || strings.Contains(answer, `"reason":"internal"`) {
				r.Errorf("%s %s at once: %s", procedure, body(i), answer)
			}
		})
	}
	callers.Wait()
}

// json calls a procedure and returns the answer.
func (r *rig) json(procedure, body string) string {
	request, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://node/kinesin.v1."+procedure, strings.NewReader(body))
	if err != nil {
		r.Error(err)
		return ""
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.nodes[0].transport.RoundTrip(request)
	if err != nil {
		r.Error(err)
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.Error(err)
	}
	return string(text)
}
