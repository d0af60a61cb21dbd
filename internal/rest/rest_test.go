package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// fake serves all services. It keeps the last request, and answers with what the test has set.
type fake struct {
	kinesinv1connect.UnimplementedTaskServiceHandler
	kinesinv1connect.UnimplementedJobServiceHandler
	kinesinv1connect.UnimplementedGateServiceHandler
	kinesinv1connect.UnimplementedCronServiceHandler
	kinesinv1connect.UnimplementedChainServiceHandler
	kinesinv1connect.UnimplementedQuotaServiceHandler
	kinesinv1connect.UnimplementedObjectiveServiceHandler
	kinesinv1connect.UnimplementedLambdaServiceHandler
	kinesinv1connect.UnimplementedDeadLetterServiceHandler
	kinesinv1connect.UnimplementedWorkerServiceHandler

	got      proto.Message
	answer   proto.Message
	err      error
	internal error
}

func (f *fake) services() Services {
	return Services{Tasks: f, Jobs: f, Gates: f, Crons: f, Chains: f, Groups: f, Lambdas: f, DeadLetters: f, Quotas: f, Objectives: f, Workers: f}
}

// reply keeps a request and returns the answer that the test has set.
func reply[A any](f *fake, r proto.Message) (*A, error) {
	f.got = r
	if f.err != nil {
		return nil, f.err
	}
	if answer, is := any(f.answer).(*A); is {
		return answer, nil
	}
	return new(A), nil
}

func (f *fake) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	return reply[kinesinv1.ScheduleResponse](f, r)
}

func (f *fake) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	return reply[kinesinv1.GetResponse](f, r)
}

func (f *fake) List(_ context.Context, r *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	return reply[kinesinv1.ListResponse](f, r)
}

func (f *fake) Cancel(_ context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	return reply[kinesinv1.CancelResponse](f, r)
}

func (f *fake) Wait(_ context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	return reply[kinesinv1.GetResponse](f, r)
}

func (f *fake) Reschedule(_ context.Context, r *kinesinv1.RescheduleRequest) (*kinesinv1.ChangeResponse, error) {
	return reply[kinesinv1.ChangeResponse](f, r)
}

func (f *fake) Update(_ context.Context, r *kinesinv1.UpdateRequest) (*kinesinv1.ChangeResponse, error) {
	return reply[kinesinv1.ChangeResponse](f, r)
}

func (f *fake) Redrive(_ context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	return reply[kinesinv1.ChangeResponse](f, r)
}

func (f *fake) Count(_ context.Context, r *kinesinv1.CountRequest) (*kinesinv1.CountResponse, error) {
	return reply[kinesinv1.CountResponse](f, r)
}

func (f *fake) Stats(_ context.Context, r *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	return reply[kinesinv1.StatsResponse](f, r)
}

func (f *fake) CreateJob(_ context.Context, r *kinesinv1.CreateJobRequest) (*kinesinv1.CreateJobResponse, error) {
	return reply[kinesinv1.CreateJobResponse](f, r)
}

func (f *fake) GetJob(_ context.Context, r *kinesinv1.GetJobRequest) (*kinesinv1.GetJobResponse, error) {
	return reply[kinesinv1.GetJobResponse](f, r)
}

func (f *fake) ListJobs(_ context.Context, r *kinesinv1.ListJobsRequest) (*kinesinv1.ListJobsResponse, error) {
	return reply[kinesinv1.ListJobsResponse](f, r)
}

func (f *fake) ControlJob(_ context.Context, r *kinesinv1.ControlJobRequest) (*kinesinv1.ControlJobResponse, error) {
	return reply[kinesinv1.ControlJobResponse](f, r)
}

func (f *fake) SetGate(_ context.Context, r *kinesinv1.SetGateRequest) (*kinesinv1.SetGateResponse, error) {
	return reply[kinesinv1.SetGateResponse](f, r)
}

func (f *fake) GetGate(_ context.Context, r *kinesinv1.GetGateRequest) (*kinesinv1.GetGateResponse, error) {
	return reply[kinesinv1.GetGateResponse](f, r)
}

func (f *fake) ListGates(_ context.Context, r *kinesinv1.ListGatesRequest) (*kinesinv1.ListGatesResponse, error) {
	return reply[kinesinv1.ListGatesResponse](f, r)
}

func (f *fake) ResumeGate(_ context.Context, r *kinesinv1.ResumeGateRequest) (*kinesinv1.ResumeGateResponse, error) {
	return reply[kinesinv1.ResumeGateResponse](f, r)
}

func (f *fake) GetChain(_ context.Context, r *kinesinv1.GetChainRequest) (*kinesinv1.GetChainResponse, error) {
	return reply[kinesinv1.GetChainResponse](f, r)
}

func (f *fake) ControlChain(_ context.Context, r *kinesinv1.ControlChainRequest) (*kinesinv1.ControlChainResponse, error) {
	return reply[kinesinv1.ControlChainResponse](f, r)
}

func (f *fake) CreateGroup(_ context.Context, r *kinesinv1.CreateGroupRequest) (*kinesinv1.CreateGroupResponse, error) {
	return reply[kinesinv1.CreateGroupResponse](f, r)
}

func (f *fake) AddMembers(_ context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	return reply[kinesinv1.AddMembersResponse](f, r)
}

func (f *fake) CancelGroup(_ context.Context, r *kinesinv1.CancelGroupRequest) (*kinesinv1.CancelGroupResponse, error) {
	return reply[kinesinv1.CancelGroupResponse](f, r)
}

func (f *fake) SealGroup(_ context.Context, r *kinesinv1.SealGroupRequest) (*kinesinv1.SealGroupResponse, error) {
	return reply[kinesinv1.SealGroupResponse](f, r)
}

func (f *fake) GetGroup(_ context.Context, r *kinesinv1.GetGroupRequest) (*kinesinv1.GetGroupResponse, error) {
	return reply[kinesinv1.GetGroupResponse](f, r)
}

func (f *fake) ListMembers(_ context.Context, r *kinesinv1.ListMembersRequest) (*kinesinv1.ListMembersResponse, error) {
	return reply[kinesinv1.ListMembersResponse](f, r)
}

func (f *fake) SetCron(_ context.Context, r *kinesinv1.SetCronRequest) (*kinesinv1.SetCronResponse, error) {
	return reply[kinesinv1.SetCronResponse](f, r)
}

func (f *fake) GetCron(_ context.Context, r *kinesinv1.GetCronRequest) (*kinesinv1.GetCronResponse, error) {
	return reply[kinesinv1.GetCronResponse](f, r)
}

func (f *fake) ListCrons(_ context.Context, r *kinesinv1.ListCronsRequest) (*kinesinv1.ListCronsResponse, error) {
	return reply[kinesinv1.ListCronsResponse](f, r)
}

func (f *fake) PauseCron(_ context.Context, r *kinesinv1.PauseCronRequest) (*kinesinv1.PauseCronResponse, error) {
	return reply[kinesinv1.PauseCronResponse](f, r)
}

func (f *fake) ResumeCron(_ context.Context, r *kinesinv1.ResumeCronRequest) (*kinesinv1.ResumeCronResponse, error) {
	return reply[kinesinv1.ResumeCronResponse](f, r)
}

func (f *fake) RunCron(_ context.Context, r *kinesinv1.RunCronRequest) (*kinesinv1.RunCronResponse, error) {
	return reply[kinesinv1.RunCronResponse](f, r)
}

func (f *fake) BackfillCron(_ context.Context, r *kinesinv1.BackfillCronRequest) (*kinesinv1.BackfillCronResponse, error) {
	return reply[kinesinv1.BackfillCronResponse](f, r)
}

func (f *fake) DeleteCron(_ context.Context, r *kinesinv1.DeleteCronRequest) (*kinesinv1.DeleteCronResponse, error) {
	return reply[kinesinv1.DeleteCronResponse](f, r)
}

func (f *fake) CronHistory(_ context.Context, r *kinesinv1.CronHistoryRequest) (*kinesinv1.CronHistoryResponse, error) {
	return reply[kinesinv1.CronHistoryResponse](f, r)
}

func (f *fake) SetQuota(_ context.Context, r *kinesinv1.SetQuotaRequest) (*kinesinv1.SetQuotaResponse, error) {
	return reply[kinesinv1.SetQuotaResponse](f, r)
}

func (f *fake) GetQuotas(_ context.Context, r *kinesinv1.GetQuotasRequest) (*kinesinv1.GetQuotasResponse, error) {
	return reply[kinesinv1.GetQuotasResponse](f, r)
}

func (f *fake) SetObjective(_ context.Context, r *kinesinv1.SetObjectiveRequest) (*kinesinv1.SetObjectiveResponse, error) {
	return reply[kinesinv1.SetObjectiveResponse](f, r)
}

func (f *fake) DeleteObjective(_ context.Context, r *kinesinv1.DeleteObjectiveRequest) (*kinesinv1.DeleteObjectiveResponse, error) {
	return reply[kinesinv1.DeleteObjectiveResponse](f, r)
}

func (f *fake) GetObjectives(_ context.Context, r *kinesinv1.GetObjectivesRequest) (*kinesinv1.GetObjectivesResponse, error) {
	return reply[kinesinv1.GetObjectivesResponse](f, r)
}

func (f *fake) CreateLambda(_ context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	return reply[kinesinv1.CreateLambdaResponse](f, r)
}

func (f *fake) GetLambda(_ context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	return reply[kinesinv1.GetLambdaResponse](f, r)
}

func (f *fake) ListLambdas(_ context.Context, r *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	return reply[kinesinv1.ListLambdasResponse](f, r)
}

func (f *fake) UpdateLambda(_ context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	return reply[kinesinv1.UpdateLambdaResponse](f, r)
}

func (f *fake) DeleteLambda(_ context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	return reply[kinesinv1.DeleteLambdaResponse](f, r)
}

func (f *fake) ListDeadLetters(_ context.Context, r *kinesinv1.ListDeadLettersRequest) (*kinesinv1.ListDeadLettersResponse, error) {
	return reply[kinesinv1.ListDeadLettersResponse](f, r)
}

func (f *fake) CountDeadLetters(_ context.Context, r *kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
	return reply[kinesinv1.CountDeadLettersResponse](f, r)
}

func (f *fake) ChangeDeadLetters(_ context.Context, r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
	return reply[kinesinv1.ChangeDeadLettersResponse](f, r)
}

func (f *fake) Register(_ context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	return reply[kinesinv1.RegisterResponse](f, r)
}

func (f *fake) Claim(_ context.Context, r *kinesinv1.ClaimRequest) (*kinesinv1.ClaimResponse, error) {
	return reply[kinesinv1.ClaimResponse](f, r)
}

func (f *fake) SetResults(_ context.Context, r *kinesinv1.SetResultsRequest) (*kinesinv1.SetResultsResponse, error) {
	return reply[kinesinv1.SetResultsResponse](f, r)
}

func (f *fake) Heartbeat(_ context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	return reply[kinesinv1.HeartbeatResponse](f, r)
}

func (f *fake) Leave(_ context.Context, r *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	return reply[kinesinv1.LeaveResponse](f, r)
}

// exchange is a request, what the service behind gets and answers, and the response. Empty parts are not
// compared.
type exchange struct {
	request string // METHOD PATH BODY
	header  string // NAME: VALUE
	wire    string // the message to the service, in JSON
	answer  proto.Message
	err     error
	status  int
	body    string // a part of it
	headers string // a part of them
}

var one = &kinesinv1.Task{Id: "k1", Lambda: "mail", State: "scheduled", DueMicros: due, Seq: 7}

// due is 2027-01-31T09:00:00.25Z.
const due = 1_801_386_000_250_000

func oneTask(t *kinesinv1.Task) *kinesinv1.GetResponse {
	return &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{{Task: t}}}
}

func oneResult(r *kinesinv1.ScheduleResult) *kinesinv1.ScheduleResponse {
	return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{r}}
}

func oneChange(r *kinesinv1.ChangeResult) *kinesinv1.ChangeResponse {
	return &kinesinv1.ChangeResponse{Results: []*kinesinv1.ChangeResult{r}}
}

func refusal(reason kinesinv1.Reason) *kinesinv1.Problem {
	return &kinesinv1.Problem{Reason: reason, Text: "because"}
}

const (
	handle = "000102030405060708090a0b0c0d0e0f"
	coded  = `"AAECAwQFBgcICQoLDA0ODw=="`
)

var (
	done   = oneResult(&kinesinv1.ScheduleResult{Id: "k1", DueMicros: due})
	moved  = oneChange(&kinesinv1.ChangeResult{Id: "k1", State: "scheduled", DueMicros: due, Seq: 8})
	sixths = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
)

var exchanges = []exchange{
	// Schedule.
	{request: `POST /v1/lambdas/mail/tasks {}`, wire: `{"items":[{"lambda":"mail"}]}`, answer: done, status: 201, body: `{"id":"k1","due":"2027-01-31T09:00:00.250000Z"}`, headers: "Location: /v1/tasks/k1"},
	{
		request: `POST /v1/lambdas/mail/tasks {"payload":{"a": [1, "<b>"]},"due":"2027-01-31T10:00:00.25+01:00","key":"k","on_conflict":"replace","priority":"high","collection":"c","tags":{"x":"y"},` +
			`"start_before":"2027-02-01T00:00:00Z","max_attempts":3,"timeout":"90s","backoff_min":"1s","backoff_max":"1m30s","traceparent":"t"}`,
		wire: `{"items":[{"lambda":"mail","dueMicros":"1801386000250000","priority":"high","collection":"c","key":"k","payload":"eyJhIjpbMSwiPGI+Il19","maxAttempts":3,"timeoutMicros":"90000000",` +
			`"backoffMinMicros":"1000000","backoffMaxMicros":"90000000","traceparent":"t","onConflict":"replace","tags":{"x":"y"},"startBeforeMicros":"1801440000000000"}]}`,
		answer: oneResult(&kinesinv1.ScheduleResult{Id: "k1", Duplicate: true, State: "scheduled", Replaced: true}), status: 200, body: `{"id":"k1","existed":true,"state":"scheduled","replaced":true}`,
	},
	{
		request: `POST /v1/lambdas/mail/tasks {"then":[{"lambda":"sms","delay":"1h","payload_text":"hi","else":[{"lambda":"mail"}]}],"finally":[{"lambda":"log","priority":"low"}]}`,
		wire:    `{"items":[{"lambda":"mail","then":[{"lambda":"sms","delayMicros":"3600000000","payload":"aGk=","else":[{"lambda":"mail"}]}],"finally":[{"lambda":"log","priority":"low"}]}]}`,
		answer:  done, status: 201,
	},
	{request: `POST /v1/lambdas/mail/tasks {"then":[{"payload":1}]}`, status: 400, body: `lambda`},
	{request: `POST /v1/lambdas/mail/tasks {"then":{"lambda":"sms"}}`, status: 400, body: `no list of tasks`},
	{request: `POST /v1/lambdas/mail/tasks {"then":[{"lambda":"sms","dealy":"1h"}]}`, status: 400, body: `then[0]: unknown field \"dealy\" in the task`},
	{request: `POST /v1/lambdas/mail/tasks {"then":[{"lambda":"sms","else":[{"lambda":"a"},{"payload":1}]}]}`, status: 400, body: `then[0].else[1]: the task has no field \"lambda\"`},
	{request: `POST /v1/lambdas/mail/tasks {"then":[{"lambda":"sms","else":[{"lambda":"a","payload":1,"payload_text":"t"}]}]}`, status: 400, body: `then[0].else[0]: `},
	{request: `POST /v1/lambdas/mail/tasks {"payload_text":"hi","delay":"1.5s"}`, wire: `{"items":[{"lambda":"mail","delayMicros":"1500000","payload":"aGk="}]}`, answer: done, status: 201},
	{request: `POST /v1/lambdas/mail/tasks {"payload_base64":"AAE=","delay":"0s"}`, wire: `{"items":[{"lambda":"mail","payload":"AAE="}]}`, answer: done, status: 201},
	{request: `POST /v1/lambdas/mail/tasks {"payload":null}`, wire: `{"items":[{"lambda":"mail","payload":"bnVsbA=="}]}`, answer: done, status: 201},
	{request: `POST /v1/lambdas/a%2Fb/tasks {}`, wire: `{"items":[{"lambda":"a/b"}]}`, answer: done, status: 201},
	{request: `POST /v1/lambdas/mail/tasks {}`, answer: oneResult(&kinesinv1.ScheduleResult{Problem: refusal(kinesinv1.Reason_REASON_KEY_CONFLICT)}), status: 409, body: `"reason":"key_conflict"`},
	{request: `POST /v1/lambdas/mail/tasks {}`, answer: oneResult(&kinesinv1.ScheduleResult{Problem: refusal(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA)}), status: 404, body: `"detail":"because"`},
	{request: `POST /v1/lambdas/mail/tasks {}`, answer: oneResult(&kinesinv1.ScheduleResult{Problem: refusal(kinesinv1.Reason_REASON_FULL)}), status: 507},
	{request: `POST /v1/lambdas/mail/tasks {}`, answer: oneResult(&kinesinv1.ScheduleResult{Problem: refusal(kinesinv1.Reason_REASON_TOO_LARGE)}), status: 413},
	{request: `POST /v1/lambdas/mail/tasks {}`, answer: &kinesinv1.ScheduleResponse{}, status: 500, body: api.InternalText},

	// Mistakes that people make.
	{request: `POST /v1/lambdas/mail/tasks {"deley":"90s"}`, status: 400, body: `unknown field \"deley\" in the body; allowed here: backoff_max,`},
	{request: `POST /v1/lambdas/mail/tasks {"Delay":"90s"}`, status: 400, body: `unknown field \"Delay\"`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"90s","delay":"9s"}`, status: 400, body: `field \"delay\" is twice`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":90}`, status: 400, body: `delay: 90 is no duration: want a duration as text, such as 500ms, 90s, 36h or 3d`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"90"}`, status: 400, body: `delay: \"90\" is no duration`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"-5s"}`, status: 400, body: `\"-5s\" is below zero`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"5ns"}`, status: 400, body: `is no duration`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"9999999h"}`, status: 400, body: `is no duration up to 292 years`},
	{request: `POST /v1/jobs {"action":"reschedule","by":"--1s"}`, status: 400, body: `by: \"-1s\" is below zero`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":null}`, status: 400, body: `delay: null is no value; leave the field out`},
	{request: `POST /v1/lambdas/mail/tasks {"due":1801386000}`, status: 400, body: `due: 1801386000 is no time: want a time by RFC 3339`},
	{request: `POST /v1/lambdas/mail/tasks {"due":"2027-01-31 09:00"}`, status: 400, body: `is no time: want a time by RFC 3339`},
	{request: `POST /v1/lambdas/mail/tasks {"due":"1970-01-21T20:23:06Z"}`, status: 400, body: `is before 2001, which is a mistake of unit`},
	{request: `POST /v1/lambdas/mail/tasks {"due":"2027-01-31T09:00:00Z","delay":"0s"}`, status: 400, body: `want due or delay, not both`},
	{request: `POST /v1/lambdas/mail/tasks {"payload":1,"payload_text":"1"}`, status: 400, body: `want one of payload, payload_text and payload_base64`},
	{request: `POST /v1/lambdas/mail/tasks {"payload_base64":"hello!"}`, status: 400, body: `payload_base64: not base64`},
	{request: `POST /v1/lambdas/mail/tasks {"payload_text":5}`, status: 400, body: `payload_text: 5 is not a text`},
	{request: `POST /v1/lambdas/mail/tasks {"max_attempts":-1}`, status: 400, body: `max_attempts: -1 is not a whole number from 1`},
	{request: `POST /v1/lambdas/mail/tasks {"max_attempts":0}`, status: 400, body: `max_attempts: 0 is not a whole number from 1`},
	{request: `POST /v1/lambdas/mail/tasks {"timeout":"0s"}`, status: 400, body: `timeout: \"0s\" is too short`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"1w1.5d12h"}`, wire: `{"items":[{"lambda":"mail","delayMicros":"777600000000"}]}`, answer: &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, status: 201},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"99999w"}`, status: 400, body: `is no duration up to 292 years`},
	{request: `POST /v1/lambdas/mail/tasks {"delay":"5x"}`, status: 400, body: `\"5x\" is no duration: want`},
	{request: `POST /v1/lambdas/mail/tasks {"tags":{"a":1}}`, status: 400, body: `tags: the value of \"a\" is not a text`},
	{request: `POST /v1/lambdas/mail/tasks {"tags":["a"]}`, status: 400, body: `tags: [\"a\"] is no JSON object`},
	{request: `POST /v1/lambdas/mail/tasks {"payload":1,}`, status: 400, body: `the body is not JSON, at byte 14`},
	{request: `POST /v1/lambdas/mail/tasks [1]`, status: 400, body: `the body: [1] is no JSON object`},
	{request: `POST /v1/lambdas/mail/tasks {} {}`, status: 400, body: `the body is not JSON`},
	{request: "POST /v1/lambdas/mail/tasks {\"key\":\"\xff\"}", status: 400, body: `key: byte \\xff is no UTF-8`},
	{request: `POST /v1/lambdas/mail/tasks {"key":"a\ud800"}`, status: 400, body: `key: \\ud800 is half of a surrogate pair`},
	{request: `POST /v1/lambdas/mail/tasks {"tags":{"\udc00":"b"}}`, status: 400, body: `a name in tags: \\udc00 is half of a surrogate pair`},
	{request: `POST /v1/lambdas/mail/tasks `, status: 415},
	{request: `POST /v1/lambdas/mail/tasks `, header: "Content-Type: application/json", status: 400, body: `the body is empty: want a JSON object such as {}`},
	{request: `POST /v1/lambdas/mail/tasks a=b`, header: "Content-Type: application/x-www-form-urlencoded", status: 415, body: `want Content-Type: application/json, or application/x-ndjson for a batch`},
	{request: `POST /v1/lambdas/mail/tasks {}`, header: "Content-Type: application/json; charset=latin1", status: 415},
	{request: `POST /v1/lambdas/mail/tasks {}`, header: "Content-Encoding: gzip", status: 415, body: `send it uncompressed`},
	{request: `POST /v1/lambdas {}`, header: "Content-Type: application/x-ndjson", status: 415, body: `want Content-Type: application/json`},
	{request: `PUT /v1/lambdas/mail/tasks {}`, status: 405, body: `PUT is not served at /v1/lambdas/mail/tasks: want POST`, headers: "Allow: POST"},
	{request: `DELETE /v1/tasks/count`, status: 405, headers: "Allow: GET"},
	{request: `POST /v1/openapi.json {}`, status: 405, headers: "Allow: GET"},
	{request: `GET /v1/nothing`, status: 404, body: `GET /v1/openapi.json lists what is`},
	{request: `GET /v1/tasks/`, status: 404},
	{request: `GET /v1/tasks/k1?payloads=true`, status: 400, body: `unknown parameter \"payloads\"; allowed here: payload`},
	{request: `GET /v1/tasks/k1?payload=yes`, status: 400, body: `parameter payload: \"yes\" is not true or false`},
	{request: `GET /v1/tasks/k1?payload=true&payload=false`, status: 400, body: `parameter \"payload\" is there 2 times`},
	{request: `GET /v1/tasks/k1?payload=`, status: 400, body: `parameter \"payload\" is empty: leave it out`},
	{request: `GET /v1/tasks/k1?a;b`, status: 400, body: `the query is malformed`},
	{request: `POST /v1/lambdas/mail/tasks {"payload_text":"` + strings.Repeat("x", 8<<20) + `"}`, status: 413, body: `more than 8388608 bytes`},

	// Read.
	{request: `GET /v1/tasks/k1`, wire: `{"ids":["k1"]}`, answer: oneTask(one), status: 200, body: `{"id":"k1","lambda":"mail","state":"scheduled","due":"2027-01-31T09:00:00.250000Z","seq":7}`, headers: `Etag: "7"`},
	{request: `GET /v1/tasks/k1?payload=true`, wire: `{"ids":["k1"],"withPayload":true}`, answer: oneTask(&kinesinv1.Task{Payload: []byte(`{"a":1}`)}), status: 200, body: `"payload":{"a":1}`},
	{request: `GET /v1/tasks/k1?payload=true`, answer: oneTask(&kinesinv1.Task{Payload: []byte(`Ada`)}), status: 200, body: `"payload_text":"Ada"`},
	{request: `GET /v1/tasks/k1?payload=true`, answer: oneTask(&kinesinv1.Task{Payload: []byte{0xff}}), status: 200, body: `"payload_base64":"/w=="`},
	{request: `GET /v1/tasks/k1?payload=true`, answer: oneTask(&kinesinv1.Task{}), status: 200, body: `"payload_text":""`},
	{request: `GET /v1/tasks/k1`, answer: oneTask(&kinesinv1.Task{Result: []byte(`[1]`), ResultBytes: 3}), status: 200, body: `"result":[1]`},
	{request: `GET /v1/tasks/k1`, answer: &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{{Problem: refusal(kinesinv1.Reason_REASON_NOT_FOUND)}}}, status: 404, body: `"type":"urn:kinesin:problem:not_found"`},
	{request: `GET /v1/lambdas/mail/keys/a%2Fb%20%ff%2e%2E`, answer: oneTask(one), status: 200},
	{request: `GET /v1/lambdas/mail/keys/a%2Fb`, wire: `{"keys":[{"lambda":"mail","key":"a/b"}]}`, answer: oneTask(one), status: 200},
	{request: `GET /v1/tasks/k1/wait`, wire: `{"ids":["k1"],"waitMicros":"30000000"}`, answer: oneTask(one), status: 200},
	{request: `GET /v1/tasks/k1/wait?timeout=1m`, wire: `{"ids":["k1"],"waitMicros":"60000000"}`, answer: oneTask(one), status: 200},
	{request: `GET /v1/tasks/k1/wait?timeout=60`, status: 400, body: `parameter timeout: \"60\" is no duration`},
	{request: `GET /v1/lambdas/mail/keys/k/wait?timeout=0s`, wire: `{"keys":[{"lambda":"mail","key":"k"}]}`, answer: oneTask(one), status: 200},
	{
		request: `GET /v1/tasks?where=state%3Ddead&lambda=mail&state=dead&limit=10&cursor=AAE&order=-ended`, wire: `{"lambda":"mail","state":"dead","limit":10,"cursor":"AAE=","where":"state=dead","order":"-ended"}`,
		answer: &kinesinv1.ListResponse{Tasks: []*kinesinv1.Task{one}, NextCursor: []byte{0xfb, 0xff}}, status: 200, body: `"next":"-_8"`,
	},
	{request: `GET /v1/tasks?limit=1001`, status: 400, body: `parameter limit: \"1001\" is not a whole number from 1 to 1000`},
	{request: `GET /v1/tasks?limit=0`, status: 400, body: `parameter limit: \"0\" is not a whole number from 1`},
	{request: `GET /v1/tasks?cursor=!`, status: 400, body: `parameter cursor: want next of the page before`},
	{request: `GET /v1/tasks?where=&lambda=`, answer: &kinesinv1.ListResponse{}, status: 200, body: `{"tasks":[]}`},
	{request: `GET /v1/tasks/count?where=x&exact=true`, wire: `{"where":"x","exact":true}`, answer: &kinesinv1.CountResponse{Count: 3, Exact: true}, status: 200, body: `{"count":3,"exact":true}`},
	{
		request: `GET /v1/lambdas/mail?live=true`, wire: `{"name":"mail","live":true}`, status: 200,
		answer: &kinesinv1.GetLambdaResponse{Lambda: &kinesinv1.Lambda{Name: "mail", Live: &kinesinv1.LambdaStats{
			Lambda: "mail", Workers: new(int64), HeldBy: []*kinesinv1.HeldBy{{Reason: "gate", Text: "gate 7", Gate: "7", Action: "pause"}},
			Priorities: []*kinesinv1.PriorityStats{{Priority: "high", OldestMicros: 1500}},
		}}},
		body: `"held_by":[{"reason":"gate","text":"gate 7","gate":"7","action":"pause"}],"priorities":[{"priority":"high","started_per_second":0,"in_flight":0,"oldest":"1.5ms"}],"workers":0`,
	},
	{request: `GET /v1/lambdas/mail?count=true`, wire: `{"name":"mail","live":true,"count":true}`, status: 200},
	{request: `GET /v1/lambdas/mail?live=maybe`, status: 400, body: `live`},
	{request: `GET /v1/stats?lambda=mail`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.StatsResponse{Lambdas: []*kinesinv1.LambdaStats{{Lambda: "mail", LatenessP99Micros: 1500}}}, status: 200, body: `"lateness_p99":"1.5ms"`},

	// Change.
	{request: `DELETE /v1/tasks/k1`, wire: `{"ids":["k1"]}`, answer: &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{Outcome: "cancelled", State: "scheduled"}}}, status: 200, body: `{"outcome":"cancelled","state":"scheduled"}`},
	{request: `DELETE /v1/lambdas/mail/keys/k?if_seq=7`, wire: `{"keys":[{"lambda":"mail","key":"k"}],"ifSeq":"7"}`, answer: &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{Problem: refusal(kinesinv1.Reason_REASON_STALE_SEQ)}}}, status: 412},
	{request: `DELETE /v1/tasks/k1`, header: `If-Match: `, status: 400, body: `If-Match is empty`},
	{request: `DELETE /v1/tasks/k1`, header: `If-Match: "7"`, wire: `{"ids":["k1"],"ifSeq":"7"}`, answer: &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{Problem: refusal(kinesinv1.Reason_REASON_TOO_LATE)}}}, status: 409},
	{request: `DELETE /v1/tasks/k1`, header: `If-Match: 7`, status: 400, body: `want the ETag of one task`},
	{request: `DELETE /v1/tasks/k1`, header: `If-Match: "7", "8"`, status: 400, body: `header If-Match`},
	{request: `DELETE /v1/tasks/k1`, header: `If-Match: "`, status: 400, body: `want the ETag of one task`},
	{request: `DELETE /v1/tasks/k1?if_seq=8`, header: `If-Match: "7"`, status: 400, body: `if_seq is given twice`},
	{request: `DELETE /v1/tasks/k1 {"if_seq":7}`, status: 400, body: `DELETE takes no body here; parameters: if_seq`},
	{request: `DELETE /v1/tasks/k1?if_seq=0`, status: 400, body: `is no seq of a task`},
	{request: `PATCH /v1/tasks/k1 {"delay":"0s"}`, wire: `{"ids":["k1"]}`, answer: moved, status: 200, body: `"seq":8`, headers: `Etag: "8"`},
	{request: `PATCH /v1/tasks/k1 {"due":"2027-01-31T09:00:00.25Z","if_seq":7}`, wire: `{"ids":["k1"],"dueMicros":"1801386000250000","ifSeq":"7"}`, answer: moved, status: 200},
	{request: `PATCH /v1/tasks/k1 {"payload_text":"","max_attempts":3}`, header: `If-Match: "7"`, wire: `{"updates":[{"id":"k1","ifSeq":"7","payload":"","maxAttempts":3}]}`, answer: moved, status: 200},
	{request: `PATCH /v1/lambdas/mail/keys/k {"timeout":"1m"}`, wire: `{"updates":[{"key":{"lambda":"mail","key":"k"},"timeoutMicros":"60000000"}]}`, answer: moved, status: 200},
	{request: `PATCH /v1/tasks/k1 {"delay":"1s","payload":1}`, wire: `{"updates":[{"id":"k1","payload":"MQ==","delayMicros":"1000000"}]}`, answer: moved, status: 200},
	{request: `PATCH /v1/tasks/k1 {"due":"2020-01-31T09:00:00Z"}`, answer: moved, status: 200, body: `in the past, which means now`},
	{request: `PATCH /v1/tasks/k1 {"delay":"0s","priority":"high"}`, wire: `{"updates":[{"id":"k1","priority":"high","delayMicros":"1"}]}`, answer: moved, status: 200},
	{request: `PATCH /v1/tasks/k1 {"due":"2027-01-31T09:00:00.25Z","timeout":"1m"}`, wire: `{"updates":[{"id":"k1","timeoutMicros":"60000000","dueMicros":"1801386000250000"}]}`, answer: moved, status: 200},
	{request: `PATCH /v1/tasks/k1 {}`, status: 400, body: `nothing to change: want due or delay`},
	{request: `POST /v1/tasks/k1/run`, wire: `{"ids":["k1"]}`, answer: moved, status: 200},
	{
		request: `GET /v1/tasks/k1?payload=true`, status: 200, body: `"seq":7,"blob":{"id":"01","bytes":9,"sha256":"02"}}`,
		answer: &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{{Task: &kinesinv1.Task{Id: "k1", Seq: 7, Blob: &kinesinv1.Blob{Id: []byte{1}, Bytes: 9, Sha256: []byte{2}}}}}},
	},
	{request: `PATCH /v1/lambdas/mail {"poison_bound":0}`, status: 400, body: `poison_bound: 0 is not a whole number from 1`},
	{request: `PATCH /v1/tasks/k1 {"delay":"1h","if_seq":0}`, status: 400, body: `if_seq: 0 is not a whole number from 1`},
	{request: `POST /v1/tasks/k1/run {"if_seq":0}`, status: 400, body: `if_seq: 0 is not a whole number from 1`},
	{request: `POST /v1/tasks/k1/redrive {"if_seq":0}`, status: 400, body: `if_seq: 0 is not a whole number from 1`},
	{request: `POST /v1/tasks/k1/run {"if_seq":7}`, wire: `{"ids":["k1"],"ifSeq":"7"}`, answer: oneChange(&kinesinv1.ChangeResult{Problem: refusal(kinesinv1.Reason_REASON_STALE_SEQ)}), status: 412},
	{request: `POST /v1/lambdas/mail/keys/k/redrive {"force":true,"payload":{}}`, wire: `{"keys":[{"lambda":"mail","key":"k"}],"force":true,"payload":"e30="}`, answer: moved, status: 200},
	{request: `POST /v1/tasks/k1/redrive`, header: `If-Match: *`, wire: `{"ids":["k1"]}`, answer: moved, status: 200},

	// Lambdas.
	{
		request: `POST /v1/lambdas {"name":"mail","mode":"managed","priorities":["a","b"],"shards":2,"max_attempts":3,"timeout":"1m","backoff_min":"1s","backoff_max":"2s","retention":"24h","key_retention":"1h","poison_bound":5,"start_within":"1h","priority_weights":{"a":8},"retry_share":0.2,"breaker":{"failures":0.5,"window":"30s"}}`,
		wire: `{"lambda":{"name":"mail","mode":"managed","priorities":["a","b"],"shards":2,"maxAttempts":3,"timeoutMicros":"60000000","backoffMinMicros":"1000000","backoffMaxMicros":"2000000","retentionMicros":"86400000000",` +
			`"keyRetentionMicros":"3600000000","poisonBound":5,"startWithinMicros":"3600000000","priorityWeights":{"a":8},"retryShare":0.2,"breaker":{"failures":0.5,"windowMicros":"30000000"}}}`,
		answer: &kinesinv1.CreateLambdaResponse{Lambda: &kinesinv1.Lambda{Name: "mail", RetentionMicros: 86400000000}}, status: 201, body: `{"name":"mail","retention":"24h0m0s"}`,
	},
	{request: `POST /v1/lambdas {"name":"mail"}`, answer: &kinesinv1.CreateLambdaResponse{Existed: true}, status: 200},
	{request: `POST /v1/lambdas {"name":"x","priorities":["1","2","3","4","5","6","7","8","9"]}`, status: 400, body: `priorities: more than 8 elements`},
	{request: `GET /v1/lambdas`, answer: &kinesinv1.ListLambdasResponse{Lambdas: []*kinesinv1.Lambda{{Name: "mail"}}}, status: 200, body: `{"lambdas":[{"name":"mail"}]}`},
	{
		request: `GET /v1/lambdas/mail`, wire: `{"name":"mail"}`, status: 200, body: `"priority_weights":{"a":8}`,
		answer: &kinesinv1.GetLambdaResponse{Lambda: &kinesinv1.Lambda{Name: "mail", PriorityWeights: map[string]uint32{"a": 8}}},
	},
	{
		request: `GET /v1/lambdas/mail`, status: 200, body: `"retry_share":0.2,"breaker":{"failures":0.5,"window":"30s"}`,
		answer: &kinesinv1.GetLambdaResponse{Lambda: &kinesinv1.Lambda{Name: "mail", RetryShare: 0.2, Breaker: &kinesinv1.Breaker{Failures: 0.5, WindowMicros: 30e6}}},
	},
	{request: `PATCH /v1/lambdas/mail {"retry_share":0,"breaker":{}}`, wire: `{"lambda":{"name":"mail","retryShare":-1,"breaker":{}}}`, status: 200},
	{request: `PATCH /v1/lambdas/mail {"breaker":{"failure":1}}`, status: 400, body: `unknown field \"failure\" in breaker`},
	{request: `PATCH /v1/lambdas/mail {"max_attempts":3}`, wire: `{"lambda":{"name":"mail","maxAttempts":3}}`, status: 200},
	{request: `PATCH /v1/lambdas/mail {"priority_weights":{}}`, wire: `{"lambda":{"name":"mail","priorityWeights":{"":0}}}`, status: 200},
	{request: `PATCH /v1/lambdas/mail {"priority_weights":{"a":-1}}`, status: 400, body: `priority_weights: the value of \"a\" is not a whole number from 0`},
	{request: `PATCH /v1/lambdas/mail {"name":"x"}`, status: 400, body: `unknown field \"name\"`},
	{request: `DELETE /v1/lambdas/mail`, wire: `{"name":"mail"}`, status: 200, body: `{"dropped":0,"more":false}`},
	{request: `DELETE /v1/lambdas/mail?drop_tasks=true`, wire: `{"name":"mail","dropTasks":true,"goesOn":true}`, answer: &kinesinv1.DeleteLambdaResponse{Dropped: 9, More: true}, status: 202, body: `{"dropped":9,"more":true}`},

	// Dead letters of deliver lambdas.
	{
		request: `GET /v1/lambdas/mail/dead-letters?priority=high&limit=5&payload=true`, wire: `{"lambda":"mail","priority":"high","limit":5,"payload":true}`,
		answer: &kinesinv1.ListDeadLettersResponse{Messages: []*kinesinv1.DeadLetter{{Id: "k1", MessageId: "m", Priority: "high", DueMicros: due, Receives: 11, PayloadBytes: 2, Payload: []byte("hi")}}, More: true},
		status: 200, body: `{"messages":[{"id":"k1","message_id":"m","priority":"high","due":"2027-01-31T09:00:00.250000Z","receives":11,"payload_bytes":2,"payload_text":"hi"}],"more":true}`,
	},
	{request: `GET /v1/lambdas/mail/dead-letters`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.ListDeadLettersResponse{Messages: []*kinesinv1.DeadLetter{{Id: "m"}}}, status: 200, body: `{"messages":[{"id":"m","message_id":"","priority":"","receives":0,"payload_bytes":0}]}`},
	{request: `GET /v1/lambdas/mail/dead-letters?limit=1001`, status: 400, body: `parameter limit: \"1001\" is not a whole number from 1 to 1000`},
	{
		request: `GET /v1/lambdas/mail/dead-letters/count?priority=high`, wire: `{"lambda":"mail","priority":"high"}`,
		answer: &kinesinv1.CountDeadLettersResponse{Count: 3, Queues: []*kinesinv1.DeadLetterQueue{{Priority: "high", Name: "q-dlq", Count: 3, Move: &kinesinv1.DeadLetterMove{State: "running", Moved: 7}}}},
		status: 200, body: `{"count":3,"exact":false,"queues":[{"priority":"high","source":"","name":"q-dlq","receives_max":0,"count":3,"move":{"state":"running","moved":7,"total":0}}]}`,
	},
	{
		request: `POST /v1/lambdas/mail/dead-letters/redrive {"priority":"high","pace":5,"began":"2027-01-31T09:00:00.25Z"}`,
		wire:    `{"action":"redrive","lambda":"mail","priority":"high","pace":5,"beganMicros":"1801386000250000"}`,
		answer:  &kinesinv1.ChangeDeadLettersResponse{Outcomes: map[string]int64{"redriven": 2}, More: true, BeganMicros: due}, status: 202, body: `{"outcomes":{"redriven":2},"more":true,"began":"2027-01-31T09:00:00.250000Z"}`,
	},
	{request: `POST /v1/lambdas/mail/dead-letters/redrive`, answer: &kinesinv1.ChangeDeadLettersResponse{BeganMicros: due, Queues: []*kinesinv1.DeadLetterQueue{{Name: "q"}}}, status: 202, body: `"queues":[{"priority":"","source":"","name":"q","receives_max":0}]`},
	{request: `POST /v1/lambdas/mail/dead-letters/delete {"purge":true}`, wire: `{"action":"delete","lambda":"mail","purge":true}`, answer: &kinesinv1.ChangeDeadLettersResponse{BeganMicros: due}, status: 200, body: `{"outcomes":{},"began":`},
	{request: `POST /v1/lambdas/mail/dead-letters/delete`, err: api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no dead-letter queue"), status: 404},

	// Jobs.
	{
		request: `POST /v1/jobs {"action":"reschedule","where":"x","pace":5,"by":"-1h","spread":"1h","due":"2027-01-31T09:00:00.25Z"}`,
		wire:    `{"action":"reschedule","where":"x","pace":5,"byMicros":"-3600000000","spreadMicros":"3600000000","dueMicros":"1801386000250000"}`,
		answer:  &kinesinv1.CreateJobResponse{Job: &kinesinv1.Job{Id: "j", ByMicros: -1, Outcomes: map[string]int64{"cancelled": 2}}}, status: 201, body: `"outcomes":{"cancelled":2},"by":"-1µs"`,
	},
	{request: `POST /v1/jobs {"action":"delete","all":true,"dry_run":true,"force":true}`, wire: `{"action":"delete","all":true,"dryRun":true,"force":true}`, answer: &kinesinv1.CreateJobResponse{Job: &kinesinv1.Job{Sample: []*kinesinv1.Task{one}}}, status: 200, body: `"sample":[{"id":"k1"`},
	{request: `GET /v1/jobs`, answer: &kinesinv1.ListJobsResponse{Jobs: []*kinesinv1.Job{{Id: "j", Refused: []*kinesinv1.JobRefusal{{Id: "k", Text: "t"}}}}}, status: 200, body: `"refused":[{"id":"k","text":"t"}]`},
	{request: `GET /v1/jobs/j`, answer: &kinesinv1.GetJobResponse{Job: &kinesinv1.Job{Id: "j", State: "done"}}, status: 200, body: `"state":"done"`},
	{request: `GET /v1/jobs/j`, wire: `{"id":"j"}`, err: api.ErrNotFound, status: 404},
	{request: `POST /v1/jobs/j/pause`, wire: `{"id":"j","action":"pause"}`, status: 200},
	{request: `POST /v1/jobs/j/resume`, wire: `{"id":"j","action":"resume"}`, status: 200},
	{request: `POST /v1/jobs/j/stop`, wire: `{"id":"j","action":"stop"}`, status: 200},
	{request: `POST /v1/jobs/j/go`, status: 404},

	// Gates.
	{
		request: `POST /v1/gates {"action":"pause","lambda":"mail","collection":"c","reason":"db","until":"2027-01-31T09:00:00.25Z"}`,
		wire:    `{"gate":{"action":"pause","lambda":"mail","collection":"c","reason":"db","untilMicros":"1801386000250000"}}`,
		answer:  &kinesinv1.SetGateResponse{Gate: &kinesinv1.Gate{Id: "7", Action: "pause", State: "active", Note: "n"}}, status: 201, body: `"id":"7","action":"pause"`,
	},
	{
		request: `POST /v1/gates {"action":"drop","lambda":"mail","priority":"low","tag":"a=b","reason":"x","dry_run":true}`,
		wire:    `{"gate":{"action":"drop","lambda":"mail","priority":"low","tag":"a=b","reason":"x"},"dryRun":true}`,
		answer:  &kinesinv1.SetGateResponse{Gate: &kinesinv1.Gate{Counts: &kinesinv1.GateCounts{Now: 1, NextHour: 2, Sent: -1}}}, status: 200,
		body: `"counts":{"now":1,"next_hour":2,"exact":false,"sent":-1}`,
	},
	{request: `POST /v1/gates {"action":"pause","lambda":"mail","reason":"x","for":"1h"}`, status: 400, body: `for`},
	{request: `GET /v1/gates?lambda=mail&ended=true`, wire: `{"lambda":"mail","ended":true}`, answer: &kinesinv1.ListGatesResponse{Gates: []*kinesinv1.Gate{{Id: "7"}}}, status: 200, body: `{"gates":[{"id":"7"`},
	{request: `GET /v1/gates?ended=maybe`, status: 400, body: `ended`},
	{request: `GET /v1/gates/7`, wire: `{"id":"7"}`, answer: &kinesinv1.GetGateResponse{Gate: &kinesinv1.Gate{Id: "7", EndedBy: "bob"}}, status: 200, body: `"ended_by":"bob"`},
	{request: `GET /v1/gates/7`, err: api.ErrNotFound, status: 404},
	{request: `POST /v1/gates/7/resume {"pace":5}`, wire: `{"id":"7","pace":5}`, answer: &kinesinv1.ResumeGateResponse{Gate: &kinesinv1.Gate{State: "resuming", Pace: 5}}, status: 200, body: `"state":"resuming","pace":5`},
	{request: `POST /v1/gates/7/resume`, wire: `{"id":"7"}`, status: 200},
	{request: `POST /v1/gates/7/resume {"pace":-1}`, status: 400, body: `pace`},
	// Groups.
	{
		request: `POST /v1/groups {"then":{"lambda":"report","payload":{"a":1},"delay":"1m"},"else":[{"lambda":"alarm","payload_text":"x"}],"expires":"2027-01-31T09:00:00Z"}`,
		wire:    `{"then":{"lambda":"report","payload":"eyJhIjoxfQ==","delayMicros":"60000000"},"else":{"lambda":"alarm","payload":"eA=="},"expiresMicros":"1801386000000000"}`,
		answer:  &kinesinv1.CreateGroupResponse{Group: &kinesinv1.Group{Id: "g1", State: "open", Then: "report", Else: "alarm"}}, status: 201, body: `{"id":"g1","state":"open","then":"report","else":"alarm","sealed":false,"members":0,"counted":0,"counts":{}}`,
	},
	{request: `POST /v1/groups {"then":{"lambda":"report"}}`, answer: &kinesinv1.CreateGroupResponse{Existed: true}, status: 200},
	{request: `POST /v1/groups {}`, status: 400, body: `then`},
	{request: `POST /v1/groups {"then":{"payload":1}}`, status: 400, body: `lambda`},
	{
		request: `POST /v1/groups {"then":[{"lambda":"a"},{"lambda":"b"}],"else":{"lambda":"c"},"finally":[{"lambda":"d","then":[{"lambda":"e"}]}]}`,
		wire:    `{"then":{"lambda":"a"},"moreThen":[{"lambda":"b"}],"else":{"lambda":"c"},"finally":[{"lambda":"d","then":[{"lambda":"e"}]}]}`,
		answer:  &kinesinv1.CreateGroupResponse{Group: &kinesinv1.Group{Id: "g1", State: "open", Then: "a", FollowUps: []*kinesinv1.GroupFollowUp{{Edge: "then", Lambda: "a"}}}}, status: 201,
		body: `"follow_ups":[{"edge":"then","lambda":"a"}]`,
	},
	{request: `POST /v1/groups {"finally":{"lambda":"d"}}`, wire: `{"finally":[{"lambda":"d"}]}`, status: 201},
	{request: `POST /v1/groups {"finally":[{"lambda":"d"},{"lambda":"e","then":[{"payload":1}]}]}`, status: 400, body: `lambda`},
	{request: `POST /v1/groups {"then":{"lambda":"a","dealy":"1s"}}`, status: 400, body: `dealy`},
	{
		request: `GET /v1/groups/g1`, wire: `{"id":"g1"}`, status: 200,
		answer: &kinesinv1.GetGroupResponse{Group: &kinesinv1.Group{Id: "g1", State: "done", Then: "report", Members: 3, Counted: 3, Counts: map[string]uint32{"success": 2, "dead": 1}, FollowUp: "k1", CompletedMicros: 1801386000000000}},
		body:   `"sealed":true,"members":3,"counted":3,"counts":{"dead":1,"success":2},"completed":"2027-01-31T09:00:00.000000Z","follow_up":"k1"}`,
	},
	{request: `GET /v1/groups/g1`, err: api.ErrNotFound, status: 404},
	{
		request: `POST /v1/groups/g1/members {"at":2,"members":[{"lambda":"mail","payload_text":"hi"},{"lambda":"pay"}]}`, wire: `{"group":"g1","at":2,"items":[{"lambda":"mail","payload":"aGk="},{"lambda":"pay"}]}`,
		answer: &kinesinv1.AddMembersResponse{Ids: []string{"k1", "k2"}, Members: 4}, status: 201, body: `{"members":4,"ids":["k1","k2"]}`,
	},
	{request: `POST /v1/groups/g1/members {"at":2,"members":[{"lambda":"mail"}]}`, answer: &kinesinv1.AddMembersResponse{Existed: true}, status: 200, body: `"existed":true`},
	{request: `POST /v1/groups/g1/members {"at":2,"members":[{"lambda":"mail"}]}`, err: api.ErrStaleSeq, status: 412},
	{request: `POST /v1/groups/g1/members {"at":2,"members":[{"lambda":"mail"}]}`, err: api.ErrTooLate, status: 409},
	{request: `POST /v1/groups/g1/members {"at":2,"members":[{"payload":1}]}`, status: 400, body: `lambda`},
	{request: `POST /v1/groups/g1:seal`, wire: `{"group":"g1"}`, answer: &kinesinv1.SealGroupResponse{Group: &kinesinv1.Group{State: "sealed"}}, status: 200, body: `"state":"sealed"`},
	{request: `POST /v1/groups/g1:seal {"members":4}`, wire: `{"group":"g1","members":4}`, status: 200},
	{request: `POST /v1/groups/g1:seal {"members":0}`, wire: `{"group":"g1","members":0}`, status: 200},
	{
		request: "POST /v1/lambdas/mail/tasks {\"then\":[" + strings.Repeat(`{"lambda":"m","then":[`, 99) + `{"lambda":"m"}` + strings.Repeat("]}", 100),
		status:  400, body: `(100 steps down): it is task 101 of a row: at most 100 tasks`,
	},
	{request: `POST /v1/groups/g1:open`, status: 405},
	{
		request: `POST /v1/groups/g1:cancel {"pace":7}`, wire: `{"group":"g1","pace":7}`, status: 202,
		answer: &kinesinv1.CancelGroupResponse{Group: &kinesinv1.Group{Id: "g1", State: "sealed", CancelledMicros: 1801386000000000, CancelledBy: "ann"}, Job: &kinesinv1.Job{Id: "j1", Action: "cancel", Group: "g1"}},
		body:   `"cancelled":"2027-01-31T09:00:00.000000Z","cancelled_by":"ann"},"job":{"id":"j1","action":"cancel"`,
	},
	{request: `POST /v1/groups/g1:cancel`, err: api.ErrTooLate, status: 409},
	{request: `GET /v1/groups/g1/members?from=0&limit=2`, wire: `{"group":"g1","limit":2}`, status: 200},
	{request: `POST /v1/groups/g1/members?at=2 {"members":[{"lambda":"mail"}]}`, status: 400, body: `of a batch`},
	{
		request: `GET /v1/groups/g1/members?from=2&limit=2`, wire: `{"group":"g1","from":2,"limit":2}`, status: 200,
		answer: &kinesinv1.ListMembersResponse{Members: []*kinesinv1.MemberOfGroup{{Index: 2, Task: &kinesinv1.Task{Id: "k1", Lambda: "mail", State: "success", Result: []byte("7")}}, {Index: 3}}, Next: 4, More: true},
		body:   `{"members":[{"index":2,"task":{"id":"k1","lambda":"mail","state":"success","result":7}},{"index":3}],"next":4}`,
	},
	{request: `GET /v1/groups/g1/members?limit=1001`, status: 400, body: `limit`},
	// Crons.
	{
		request: `POST /v1/crons {"name":"nightly","lambda":"mail","schedule":"30 2 * * *","zone":"Europe/Berlin","jitter":"1.5s","start":"2027-01-31T09:00:00.25Z","overlap":"queue","catch_up":"all","catch_up_max":5,"catch_up_within":"2h","failures_max":3,"tags":{"a":"b"},"payload":{"at": "{{nominal}}"}}`,
		wire:    `{"cron":{"name":"nightly","lambda":"mail","schedule":"30 2 * * *","zone":"Europe/Berlin","jitterMicros":"1500000","startMicros":"1801386000250000","overlap":"queue","catchUp":"all","catchUpMax":5,"catchUpWithinMicros":"7200000000","failuresMax":3,"tags":{"a":"b"},"payload":"eyJhdCI6Int7bm9taW5hbH19In0="}}`,
		answer:  &kinesinv1.SetCronResponse{Cron: &kinesinv1.Cron{Name: "nightly", Version: 1, Revision: 1, Payload: []byte("x"), NextMicros: []int64{1801386000000000}}}, status: 201,
		body: `"next":["2027-01-31T09:00:00.000000Z"]`,
	},
	{request: `POST /v1/crons {"name":"nightly","lambda":"mail","schedule":"@daily"}`, answer: &kinesinv1.SetCronResponse{Existed: true, Warning: "six fields", Cron: &kinesinv1.Cron{Name: "nightly"}}, status: 200, body: `"warning":"six fields"`},
	{request: `POST /v1/crons {"name":"nightly","lambda":"mail"}`, status: 400, body: `schedule`},
	{request: `POST /v1/crons {"name":"nightly","lambda":"mail","schedule":"@daily","payload":1,"payload_text":"x"}`, status: 400, body: `two forms`},
	{request: `POST /v1/crons {"name":"nightly","lambda":"mail","schedule":"@daily"}`, err: api.ErrExists, status: 409},
	{
		request: `PUT /v1/crons/nightly {"version":7,"lambda":"mail","schedule":"@daily","payload_text":"hi"}`,
		wire:    `{"cron":{"name":"nightly","lambda":"mail","schedule":"@daily","payload":"aGk=","version":"7"}}`,
		answer:  &kinesinv1.SetCronResponse{Cron: &kinesinv1.Cron{Version: 8, Payload: []byte("hi")}}, status: 200, body: `"payload_text":"hi"`,
	},
	{request: `PUT /v1/crons/nightly {"version":7,"lambda":"mail","schedule":"@daily"}`, err: api.ErrStaleSeq, status: 412},
	{request: `PUT /v1/crons/nightly {"lambda":"mail","schedule":"@daily"}`, wire: `{"cron":{"name":"nightly","lambda":"mail","schedule":"@daily"}}`, answer: &kinesinv1.SetCronResponse{Cron: &kinesinv1.Cron{Name: "nightly"}}, status: 201, body: `"name":"nightly"`},
	{request: `PUT /v1/crons/nightly {"lambda":"mail","schedule":"@daily"}`, answer: &kinesinv1.SetCronResponse{Existed: true, Cron: &kinesinv1.Cron{Name: "nightly"}}, status: 200, body: `"name":"nightly"`},
	{request: `PUT /v1/crons/nightly {"lambda":"mail","schedule":"@daily"}`, err: api.ErrExists, status: 409},
	{request: `GET /v1/crons?lambda=mail`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.ListCronsResponse{Crons: []*kinesinv1.Cron{{Name: "nightly"}}}, status: 200, body: `{"crons":[{"name":"nightly"`},
	{request: `GET /v1/crons/nightly`, wire: `{"name":"nightly"}`, answer: &kinesinv1.GetCronResponse{Cron: &kinesinv1.Cron{Pause: &kinesinv1.CronPause{Reason: "db", By: "bob"}}}, status: 200, body: `"pause":{"reason":"db","by":"bob"}`},
	{request: `GET /v1/crons/nightly`, err: api.ErrNotFound, status: 404},
	{
		request: `GET /v1/chains/k1`, wire: `{"id":"k1"}`, status: 200, body: `{"id":"k1","state":"live","tasks":[{"id":"k1","lambda":"mail","state":"success"},{"parent":0,"edge":"then","lambda":"sms","state":"planned","delay":"1h0m0s"},{"parent":0,"edge":"else","id":"k2","lambda":"sms","state":"dead","before_redrive":true}]}`,
		answer: &kinesinv1.GetChainResponse{Id: "k1", State: "live", Root: &kinesinv1.ChainTask{Id: "k1", Lambda: "mail", State: "success", Followups: []*kinesinv1.ChainTask{
			{Lambda: "sms", State: "planned", Edge: "then", DelayMicros: 3600e6}, {Id: "k2", Lambda: "sms", State: "dead", Edge: "else", BeforeRedrive: true},
		}}},
	},
	{request: `GET /v1/chains/k1`, err: api.ErrNotFound, status: 404},
	{request: `POST /v1/chains/k1/cancel`, wire: `{"id":"k1","action":"cancel"}`, answer: &kinesinv1.ControlChainResponse{Id: "k1", Changed: 2, Told: 1, Left: 3}, status: 200, body: `{"id":"k1","changed":2,"told":1,"left":3}`},
	{request: `POST /v1/chains/k1/pause`, wire: `{"id":"k1","action":"pause"}`, status: 200},
	{request: `POST /v1/chains/k1/resume`, wire: `{"id":"k1","action":"resume"}`, status: 200},
	{request: `POST /v1/chains/k1/redrive`, wire: `{"id":"k1","action":"redrive"}`, status: 200},
	{request: `POST /v1/chains/k1/extend {"start_before":"2027-01-31T09:00:00Z"}`, wire: `{"id":"k1","action":"extend","startBeforeMicros":"1801386000000000"}`, status: 200},
	{request: `POST /v1/chains/k1/extend {}`, status: 400, body: `start_before`},
	{request: `POST /v1/chains/k1/redrive`, err: api.ErrTooLate, status: 409},
	{request: `DELETE /v1/crons/nightly`, wire: `{"name":"nightly"}`, status: 200, body: `{}`},
	{request: `POST /v1/crons/nightly/pause {"reason":"db","until":"2027-01-31T09:00:00Z"}`, wire: `{"name":"nightly","reason":"db","untilMicros":"1801386000000000"}`, status: 200},
	{request: `POST /v1/crons/nightly/pause {}`, status: 400, body: `reason`},
	{request: `POST /v1/crons/nightly/resume`, wire: `{"name":"nightly"}`, status: 200},
	{request: `POST /v1/crons/nightly/resume {}`, wire: `{"name":"nightly"}`, status: 200},
	{request: `POST /v1/crons/nightly/resume {"reason":"x"}`, status: 400, body: `takes no body here`},
	{request: `POST /v1/crons/nightly/run`, wire: `{"name":"nightly"}`, answer: &kinesinv1.RunCronResponse{Id: "k1"}, status: 201, body: `{"id":"k1"}`},
	{
		request: `POST /v1/crons/nightly/backfill {"from":"2027-01-31T09:00:00Z","to":"2027-01-31T10:00:00Z","pace":5,"all":true}`,
		wire:    `{"name":"nightly","fromMicros":"1801386000000000","toMicros":"1801389600000000","pace":5,"all":true}`,
		answer:  &kinesinv1.BackfillCronResponse{Job: &kinesinv1.Job{Id: "j1", Action: "backfill", State: "running", Backfill: &kinesinv1.Backfill{Cron: "nightly", FromMicros: 1801386000000000}}}, status: 201,
		body: `"backfill":{"cron":"nightly","from":"2027-01-31T09:00:00.000000Z"}`,
	},
	{
		request: `POST /v1/crons/nightly/backfill {"from":"2027-01-31T09:00:00Z","to":"2027-01-31T10:00:00Z","dry_run":true}`,
		wire:    `{"name":"nightly","fromMicros":"1801386000000000","toMicros":"1801389600000000","dryRun":true}`,
		answer:  &kinesinv1.BackfillCronResponse{Job: &kinesinv1.Job{State: "counted", Backfill: &kinesinv1.Backfill{SampleMicros: []int64{1801386000000000}}}}, status: 200,
		body: `"sample":["2027-01-31T09:00:00.000000Z"]`,
	},
	{
		request: `GET /v1/crons/nightly/history?limit=3&from=2027-01-31T09:00:00Z`, wire: `{"name":"nightly","fromMicros":"1801386000000000","limit":3}`,
		answer: &kinesinv1.CronHistoryResponse{Occurrences: []*kinesinv1.CronOccurrence{{NominalMicros: 1801386000000000, Revision: 2, Outcome: "ran", Id: "k1", State: "success", LateMicros: 1500}}}, status: 200,
		body: `{"occurrences":[{"nominal":"2027-01-31T09:00:00.000000Z","revision":2,"outcome":"ran","id":"k1","state":"success","late":"1.5ms"}]}`,
	},
	{request: `GET /v1/crons/nightly/history?limit=1001`, status: 400, body: `limit`},
	{request: `GET /v1/crons/nightly/history?to=yesterday`, status: 400, body: `to`},
	// Objectives.
	{
		request: `PUT /v1/lambdas/mail/objective {"within":"5s","objective":99,"window":"720h"}`, status: 200,
		wire:   `{"lambda":"mail","withinMicros":"5000000","objective":99,"windowMicros":"2592000000000"}`,
		answer: &kinesinv1.SetObjectiveResponse{Objective: &kinesinv1.Objective{Lambda: "mail", WithinMicros: 5_000_000, Objective: 99, WindowMicros: 2_592_000_000_000, UpdatedBy: "bob"}},
		body:   `{"lambda":"mail","within":"5s","objective":99,"window":"720h0m0s","updated_by":"bob"}`,
	},
	{request: `PUT /v1/lambdas/mail/objective {"within":5}`, status: 400, body: `no duration`},
	{
		request: `GET /v1/lambdas/mail/objective`, wire: `{"lambda":"mail"}`, status: 200, body: `"budget_left":0.5,"burn":[{"over":"1h0m0s","rate":2,"started":10}]`,
		answer: &kinesinv1.GetObjectivesResponse{Objectives: []*kinesinv1.ObjectiveStatus{{
			Objective: &kinesinv1.Objective{Lambda: "mail"}, BudgetLeft: 0.5, Burns: []*kinesinv1.Burn{{OverMicros: 3_600_000_000, Rate: 2, Started: 10}},
		}}},
	},
	{request: `GET /v1/lambdas/mail/objective`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.GetObjectivesResponse{}, status: 404, body: `has no objective`},
	{request: `GET /v1/objectives`, wire: `{}`, answer: &kinesinv1.GetObjectivesResponse{}, status: 200, body: `{"objectives":[]}`},
	{request: `DELETE /v1/lambdas/mail/objective`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.DeleteObjectiveResponse{}, status: 200},
	// Quotas.
	{
		request: `PUT /v1/lambdas/mail/quotas {"priority":"low","rate":0.5,"burst":3}`, wire: `{"lambda":"mail","priority":"low","rate":0.5,"burst":3}`,
		answer: &kinesinv1.SetQuotaResponse{Quota: &kinesinv1.Quota{Lambda: "mail", Priority: "low", Rate: 0.5, Burst: 3, UpdatedBy: "bob"}}, status: 200,
		body: `{"lambda":"mail","priority":"low","rate":0.5,"burst":3,"updated_by":"bob"}`,
	},
	{request: `PUT /v1/lambdas/mail/quotas {"identity":"crm","admit":0}`, wire: `{"lambda":"mail","identity":"crm","admit":0}`, status: 200},
	{
		request: `PUT /v1/lambdas/mail/quotas {"recovery":50}`, wire: `{"lambda":"mail","recovery":50}`, status: 200, body: `"recovery":50`,
		answer: &kinesinv1.SetQuotaResponse{Quota: &kinesinv1.Quota{Lambda: "mail", Recovery: 50}},
	},
	{request: `PUT /v1/lambdas/mail/quotas {"rate":"fast"}`, status: 400, body: `is not a number`},
	{
		request: `PUT /v1/lambdas/mail/quotas {"concurrency":5}`, wire: `{"lambda":"mail","concurrency":5}`, status: 200, body: `"concurrency":5,`,
		answer: &kinesinv1.SetQuotaResponse{Quota: &kinesinv1.Quota{Lambda: "mail", Concurrency: 5, UpdatedBy: "bob"}},
	},
	{request: `PUT /v1/lambdas/mail/quotas {"concurrency":0}`, wire: `{"lambda":"mail","concurrency":0}`, status: 200},
	{request: `PUT /v1/lambdas/mail/quotas {"concurrency":null}`, status: 400, body: `leave the field out`},
	{request: `PUT /v1/lambdas/mail/quotas {"concurrency":-1}`, status: 400, body: `concurrency`},
	{request: `PUT /v1/lambdas/mail/quotas {"running":5}`, status: 400, body: `running`},
	{request: `GET /v1/quotas`, answer: &kinesinv1.GetQuotasResponse{Quotas: []*kinesinv1.Quota{{Lambda: "mail", Rate: 100}}}, status: 200, body: `{"quotas":[{"lambda":"mail","rate":100}]}`},
	{
		request: `GET /v1/lambdas/mail/quotas`, wire: `{"lambda":"mail"}`, answer: &kinesinv1.GetQuotasResponse{Quotas: []*kinesinv1.Quota{{Lambda: "mail", Rate: 100}}},
		status: 200, body: `{"quotas":[{"lambda":"mail","rate":100}]}`,
	},
	{
		request: `GET /v1/lambdas/mail/quotas`, err: api.Errorf(kinesinv1.Reason_REASON_THROTTLED, "slow").After(1500 * time.Millisecond), status: 429, body: `"retry_after":"1.5s"`,
	},

	// Workers.
	{
		request: `POST /v1/work/register {"name":"n","lease":"20s","lambdas":["a","b"],"slots":4}`, wire: `{"name":"n","leaseMicros":"20000000","groups":[{"lambdas":["a","b"],"slots":4}]}`,
		answer: &kinesinv1.RegisterResponse{Worker: "w", LeaseMicros: 20_000_000, HeartbeatMicros: 5_000_000, Proof: []byte("secret")}, status: 200, body: `{"worker":"w","lease":"20s","heartbeat":"5s"}`,
	},
	{request: `POST /v1/work/register {}`, status: 400, body: `the body has no field \"lambdas\", which it needs`},
	{request: `POST /v1/work/register {"lambdas":[]}`, status: 400, body: `lambdas is empty`},
	{
		request: `POST /v1/work/claim {"worker":"w","lambdas":["a"],"limit":5,"wait":"20s"}`, wire: `{"worker":"w","lambdas":["a"],"limit":5,"waitMicros":"20000000"}`,
		answer: &kinesinv1.ClaimResponse{Tasks: []*kinesinv1.Claimed{{Task: sixths, Attempt: 2, Id: "k1", Payload: []byte("1"), HoldMicros: 2000, TimeoutMicros: 1_000_000}}},
		status: 200, body: `{"tasks":[{"claim":"` + handle + `-2","id":"k1","lambda":"","attempt":2,"timeout":"1s","hold":"2ms","payload":1}]}`,
	},
	{request: `POST /v1/work/claim {"worker":"w","lambdas":["a"]}`, err: api.ErrLeaseLost, status: 409, body: `"reason":"lease_lost"`},
	{
		request: `POST /v1/work/heartbeat {"worker":"w","running":["` + handle + `-2"]}`, wire: `{"worker":"w","running":[{"task":` + coded + `,"attempt":2}]}`,
		answer: &kinesinv1.HeartbeatResponse{Cancels: []*kinesinv1.Held{{Task: sixths, Attempt: 2}}, NowMicros: due}, status: 200, body: `{"cancels":["` + handle + `-2"],"fenced":[],"now":"2027-01-31T09:00:00.250000Z"}`,
	},
	{request: `POST /v1/work/heartbeat {"worker":"w","running":["x"]}`, status: 400, body: `running[0]: invalid: \"x\": want one that /v1/work/claim returned`},
	{
		request: `POST /v1/work/results {"worker":"w","results":[{"claim":"` + handle + `-2","outcome":"snoozed","error":"e","started":"2027-01-31T09:00:00.25Z","delay":"5s","result":7}]}`,
		wire:    `{"worker":"w","results":[{"task":` + coded + `,"attempt":2,"outcome":"snoozed","error":"e","startedMicros":"1801386000250000","delayMicros":"5000000","result":"Nw=="}]}`,
		answer:  &kinesinv1.SetResultsResponse{Acks: []*kinesinv1.ResultAck{{Task: sixths, Attempt: 2, Problem: refusal(kinesinv1.Reason_REASON_FENCED)}}},
		status:  200, body: `{"results":[{"claim":"` + handle + `-2","problem":{"type":"urn:kinesin:problem:fenced"`,
	},
	{request: `POST /v1/work/results {"worker":"w","results":[{"claim":"` + handle + `-2","outcome":"success","result":7,"result_text":"7"}]}`, status: 400, body: `results[0]: the same in two forms: want one of result, result_text`},
	{request: `POST /v1/work/results {"worker":"w","results":[{"claims":""}]}`, status: 400, body: `unknown field \"claims\" in results[0]; allowed here: claim,`},
	{request: `POST /v1/work/leave {"worker":"w"}`, wire: `{"worker":"w"}`, status: 200, body: `{}`},

	// Problems that any service may report.
	{request: `GET /v1/lambdas`, err: api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "later"), status: 503, body: `"retry_after":"1s"`, headers: "Retry-After: 1"},
	{request: `GET /v1/lambdas`, err: api.Errorf(kinesinv1.Reason_REASON_FULL, "too many wait").After(1500 * time.Millisecond), status: 429, headers: "Retry-After: 2"},
	{request: `GET /v1/lambdas`, err: api.ErrPermissionDenied, status: 403},
	{request: `GET /v1/lambdas`, err: errors.New("a secret"), status: 500, body: `"detail":"internal error; the server's log has the cause"`},
}

func (e exchange) do(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	parts := strings.SplitN(e.request, " ", 3)
	var body io.Reader = http.NoBody
	if len(parts) == 3 {
		body = strings.NewReader(parts[2])
	}
	r := httptest.NewRequestWithContext(t.Context(), parts[0], parts[1], body)
	if len(parts) == 3 && parts[2] != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if name, value, found := strings.Cut(e.header, ": "); found {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestExchanges(t *testing.T) {
	for _, e := range exchanges {
		f := &fake{answer: e.answer, err: e.err}
		h := New(f.services(), api.Hooks{Internal: func(_ context.Context, _ string, err error) { f.internal = err }})
		w := e.do(t, h)
		text := w.Body.String()
		var headers strings.Builder
		_ = w.Header().Write(&headers)
		if w.Code != e.status || !strings.Contains(text, e.body) || !strings.Contains(headers.String(), e.headers) {
			t.Errorf("%.120s (%s): %d %s %s\nwant %d %s %s", e.request, e.header, w.Code, text, &headers, e.status, e.body, e.headers)
		}
		if e.wire != "" && !sameWire(t, f.got, e.wire) {
			t.Errorf("%.120s: sent %v\nwant %s", e.request, f.got, e.wire)
		}
		if isProblem := w.Header().Get("Content-Type") == api.ProblemType; isProblem != (e.status >= 400) || e.status >= 400 && !strings.Contains(text, fmt.Sprintf(`"status":%d`, e.status)) {
			t.Errorf("%.120s: %s %s", e.request, w.Header().Get("Content-Type"), text)
		}
		if (f.internal != nil) != (e.status == http.StatusInternalServerError) {
			t.Errorf("%.120s: the hook got %v", e.request, f.internal)
		}
	}
}

// sameWire compares a message with one in JSON.
func sameWire(t *testing.T, got proto.Message, want string) bool {
	t.Helper()
	if got == nil {
		return false
	}
	wanted := got.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(want), wanted); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	return proto.Equal(got, wanted)
}

// TestStatusesAreDocumented checks that each status of the exchanges is in the document for its route, and
// that each route has an exchange that succeeds.
func TestStatusesAreDocumented(t *testing.T) {
	h, _ := New(Services{}, api.Hooks{}).(*handler)
	tried := map[string]bool{}
	for _, e := range exchanges {
		parts := strings.SplitN(e.request, " ", 3)
		path, _, _ := strings.Cut(parts[1], "?")
		at, _, problem := h.find(parts[0], path, http.Header{})
		if problem != nil {
			continue
		}
		if !slices.Contains(slices.Concat(at.successes, at.failures), e.status) {
			t.Errorf("%.120s: %d is not in the table for %s", e.request, e.status, at.id)
		}
		tried[at.id] = tried[at.id] || e.status < 300
	}
	for i := range h.routes {
		id := h.routes[i].id
		if byKey := strings.HasSuffix(id, "ByKey"); !tried[id] && (!byKey || !tried[strings.TrimSuffix(id, "ByKey")]) {
			t.Errorf("no exchange calls %s", id)
		}
	}
}

// Without a service the server says that it cannot.
func TestWithoutServices(t *testing.T) {
	h := New(Services{}, api.Hooks{})
	for _, path := range []string{"/v1/lambdas", "/v1/jobs", "/v1/stats"} {
		if w := (exchange{request: "GET " + path}).do(t, h); w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "serve --roles") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

type panics struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
}

func (panics) ListLambdas(context.Context, *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	panic("a secret")
}

func TestAPanicIsAnInternalError(t *testing.T) {
	var told error
	h := New(Services{Lambdas: panics{}}, api.Hooks{Internal: func(_ context.Context, _ string, err error) { told = err }})
	w := (exchange{request: "GET /v1/lambdas"}).do(t, h)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || told == nil || !strings.Contains(told.Error(), "a secret") {
		t.Errorf("%d %s; the hook got %v", w.Code, w.Body, told)
	}
}

// The document names each route once, and every operation has another name.
func TestTheDocumentNamesAllRoutes(t *testing.T) {
	h := New(Services{}, api.Hooks{})
	w := (exchange{request: "GET " + documentPath}).do(t, h)
	ids := regexp.MustCompile(`"operationId":"(\w+)"`).FindAllStringSubmatch(w.Body.String(), -1)
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id[1]] = true
	}
	if w.Code != http.StatusOK || len(seen) != len(routes()) || len(ids) != len(routes()) {
		t.Errorf("%d: %d operations with %d names, want %d", w.Code, len(ids), len(seen), len(routes()))
	}
	if again := (exchange{request: "GET " + documentPath}).do(t, New(Services{}, api.Hooks{})); again.Body.String() != w.Body.String() {
		t.Error("another document the second time")
	}
}
