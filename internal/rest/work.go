package rest

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

type registerRequest struct {
	Name    string   `json:"name,omitempty" jsonschema:"for people: host and process"`
	Version string   `json:"version,omitempty" jsonschema:"of the worker's program; attempts tell it"`
	Lease   duration `json:"lease,omitzero" jsonschema:"15s when not set; 3s to 1h"`
	Lambdas []string `json:"lambdas" jsonschema:"whose tasks it will claim"`
	Slots   uint32   `json:"slots,omitempty" jsonschema:"how many tasks it runs at a time; 1 when not set"`
}

type registered struct {
	Worker    string   `json:"worker" jsonschema:"the id of the lease, for the other calls"`
	Lease     duration `json:"lease"`
	Heartbeat duration `json:"heartbeat" jsonschema:"how often to send a heartbeat"`
	Missing   []string `json:"missing,omitempty" jsonschema:"lambdas that do not exist yet: their tasks are claimed as soon as they do"`
}

func registerWorker(c *call, r *registerRequest) (int, *registered, error) {
	if len(r.Lambdas) == 0 {
		return 0, nil, invalid("lambdas is empty: want the names of the lambdas whose tasks the worker will claim")
	}
	response, err := c.Workers.Register(c.r.Context(), &kinesinv1.RegisterRequest{
		Name: r.Name, Version: r.Version, Lease: r.Lease.micros(),
		Groups: []*kinesinv1.SlotGroup{{Lambdas: r.Lambdas, Slots: max(r.Slots, 1)}},
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, &registered{
		response.GetWorker(), durationOf(response.GetLease()), durationOf(response.GetHeartbeat()), response.GetMissing(),
	}, nil
}

type claimRequest struct {
	Worker  string   `json:"worker"`
	Lambdas []string `json:"lambdas" jsonschema:"of those that it registered for"`
	Limit   uint32   `json:"limit,omitempty" jsonschema:"1 when not set; at most 1000"`
	Wait    duration `json:"wait,omitzero" jsonschema:"how long to wait for a task; at most 60s"`
}

type claims struct {
	Tasks []claimed `json:"tasks"`
}

// claimed is an attempt that the worker has to run.
type claimed struct{ *kinesinv1.Claimed }

// MarshalJSON implements json.Marshaler. The claim stands for the task, of which a worker needs no more; and hold is
// always there, so that no worker forgets it.
func (t claimed) MarshalJSON() ([]byte, error) {
	claim := claimOf(t.GetTask(), t.GetAttempt())
	t.Task = nil
	start := `{"claim":"` + claim + `",`
	if t.GetHold() == 0 {
		start += `"hold":"0s",`
	}
	return append([]byte(start), jsonform.Append(nil, t.Claimed)[1:]...), nil
}

func claimTasks(c *call, r *claimRequest) (int, *claims, error) {
	response, err := c.Workers.Claim(c.r.Context(), &kinesinv1.ClaimRequest{
		Worker: r.Worker, Lambdas: r.Lambdas, Limit: r.Limit, Wait: r.Wait.micros(),
	})
	if err != nil {
		return 0, nil, err
	}
	answer := &claims{Tasks: make([]claimed, len(response.GetTasks()))}
	for i, t := range response.GetTasks() {
		answer.Tasks[i] = claimed{t}
	}
	return http.StatusOK, answer, nil
}

// claimOf returns the text that names an attempt: the task in hexadecimal digits, a dash, and the attempt.
func claimOf(task []byte, attempt uint32) string {
	return hex.EncodeToString(task) + "-" + strconv.FormatUint(uint64(attempt), 10)
}

func parseClaim(claim string) (task []byte, attempt uint32, err error) {
	digits, number, _ := strings.Cut(claim, "-")
	task, err = hex.DecodeString(digits)
	n, numberErr := strconv.ParseUint(number, 10, 32)
	if err != nil || numberErr != nil || len(task) != 16 {
		return nil, 0, fmt.Errorf("%w: %q: want one that /v1/work/claim returned", api.ErrInvalid, api.Visible(jsonform.Shown([]byte(claim))))
	}
	return task, uint32(n), nil
}

type heartbeatRequest struct {
	Worker  string   `json:"worker"`
	Running []string `json:"running,omitempty" jsonschema:"the claims that have not ended"`
}

type heartbeat struct {
	Cancels []string `json:"cancels" jsonschema:"stop these claims: a cancel was asked for"`
	Fenced  []string `json:"fenced" jsonschema:"stop these claims: they no longer own their tasks"`
	Now     moment   `json:"now" jsonschema:"the time of the server"`
}

func sendHeartbeat(c *call, r *heartbeatRequest) (int, *heartbeat, error) {
	request := &kinesinv1.HeartbeatRequest{Worker: r.Worker}
	for i, claim := range r.Running {
		task, attempt, err := parseClaim(claim)
		if err != nil {
			return 0, nil, fmt.Errorf("running[%d]: %w", i, err)
		}
		request.Running = append(request.Running, &kinesinv1.Held{Task: task, Attempt: attempt})
	}
	response, err := c.Workers.Heartbeat(c.r.Context(), request)
	return http.StatusOK, &heartbeat{claimsOf(response.GetCancels()), claimsOf(response.GetFenced()), moment(response.GetNow())}, err
}

func claimsOf(held []*kinesinv1.Held) []string {
	claims := make([]string, len(held))
	for i, h := range held {
		claims[i] = claimOf(h.GetTask(), h.GetAttempt())
	}
	return claims
}

type resultsRequest struct {
	Worker  string       `json:"worker"`
	Results []workResult `json:"results"`
}

type workResult struct {
	result

	Claim   string   `json:"claim"`
	Outcome string   `json:"outcome" jsonschema:"success, retriable_failure, fatal_failure, snoozed, released or cancelled"`
	Error   string   `json:"error,omitempty" jsonschema:"of a failure, for people"`
	Started moment   `json:"started,omitzero" jsonschema:"when the attempt started; not set: it is not known"`
	Delay   duration `json:"delay,omitzero" jsonschema:"of snoozed: how long until the next attempt"`
}

type resultAcks struct {
	Results []resultAck `json:"results" jsonschema:"one for each result, in order"`
}

type resultAck struct {
	Claim   string           `json:"claim"`
	Problem *api.HTTPProblem `json:"problem,omitempty" jsonschema:"why the result is not stored; none: it is"`
}

func sendResults(c *call, r *resultsRequest) (int, *resultAcks, error) {
	request := &kinesinv1.SetResultsRequest{Worker: r.Worker}
	for i := range r.Results {
		one := &r.Results[i]
		task, attempt, err := parseClaim(one.Claim)
		if err != nil {
			return 0, nil, fmt.Errorf("results[%d]: claim: %w", i, err)
		}
		value, err := one.bytes()
		if err != nil {
			return 0, nil, invalid("results[%d]: %v", i, err)
		}
		request.Results = append(request.Results, &kinesinv1.Result{
			Task: task, Attempt: attempt, Outcome: one.Outcome, Error: one.Error, Started: int64(one.Started), Delay: one.Delay.micros(), Result: value,
		})
	}
	response, err := c.Workers.SetResults(c.r.Context(), request)
	if err != nil {
		return 0, nil, err
	}
	acks := &resultAcks{Results: make([]resultAck, len(response.GetAcks()))}
	for i, ack := range response.GetAcks() {
		acks.Results[i] = resultAck{claimOf(ack.GetTask(), ack.GetAttempt()), problemOf(ack.GetProblem())}
	}
	return http.StatusOK, acks, nil
}

type leaveRequest struct {
	Worker string `json:"worker"`
}

type left struct{}

func leave(c *call, r *leaveRequest) (int, *left, error) {
	_, err := c.Workers.Leave(c.r.Context(), &kinesinv1.LeaveRequest{Worker: r.Worker})
	return http.StatusOK, &left{}, err
}
