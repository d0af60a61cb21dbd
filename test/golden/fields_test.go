package golden

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy/wirecopytest"
	"github.com/kinesin-io/kinesin/sdk"
)

// The tests of this file walk the messages of the API, and fail for each field that a surface leaves out. What it leaves
// out on purpose stands here, with the reason. Package sdk/admin has a test like these.

// but are the fields that a surface leaves out, each with the reason.
type but map[string]string

// check reports each field that is not there, and each exception that is, or that is of no field.
func (b but) check(t *testing.T, what string, fields []string, has func(field string) bool) {
	t.Helper()
	for _, field := range fields {
		if has(field) == (b[field] != "") {
			t.Errorf("%s: %s is there: %v; excepted: %q", what, field, has(field), b[field])
		}
	}
	for field := range b {
		if !slices.Contains(fields, field) {
			t.Errorf("%s has no %s", what, field)
		}
	}
}

// with returns exceptions of one and of other fields.
func (b but) with(more but) but {
	b = maps.Clone(b)
	maps.Copy(b, more)
	return b
}

// within returns exceptions of a message for one that it is in.
func (b but) within(field string) but {
	all := but{}
	for name, why := range b {
		all[field+"."+name] = why
	}
	return all
}

// fieldsOf returns the names of the fields of a message; of a request without what the server alone sets.
func fieldsOf(d protoreflect.MessageDescriptor, isRequest bool) (names []string) {
	for i := range d.Fields().Len() {
		switch f := d.Fields().Get(i); {
		case isRequest && (proto.GetExtension(f.Options(), kinesinv1.E_ReadOnly) == true || api.MaskOf(d) == f): // the mask is what there is
		case proto.GetExtension(f.Options(), kinesinv1.E_Inline) == true: // its fields are in the object around it
			names = append(names, fieldsOf(f.Message(), isRequest)...)
		default:
			names = append(names, string(f.Name()))
		}
	}
	return names
}

func requestFields(m proto.Message) []string { return fieldsOf(m.ProtoReflect().Descriptor(), true) }

// documentOfFields is what a test of fields reads of the OpenAPI document.
type documentOfFields struct {
	Components struct{ Schemas map[string]objectSchema }
	Paths      map[string]map[string]struct {
		OperationID string
		Parameters  []struct{ Name, In string }
		RequestBody struct {
			Content map[string]struct{ Schema objectSchema }
		}
	}
}

type objectSchema struct {
	Ref        string `json:"$ref"`
	Properties map[string]any
}

// noHTTP are the services that plain HTTP does not have.
var noHTTP = but{
	"AccessService":  "tokens and the audit log are for operators",
	"BackupService":  "a stream of files, for the command line",
	"InboundService": "what was set aside is for operators, and the key is a secret",
	"KeyringService": "keys are for operators",
}

const (
	inPath   = "it is in the path"
	oneTask  = "the path names one task"
	byPath   = "the path says it"
	asStatus = "the status says it"
	inClaim  = "in claim"
)

func TestHTTPHasEachField(t *testing.T) {
	_, text := readDocument(t)
	var document documentOfFields
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	schemas := document.Components.Schemas
	takes, named := map[string][]string{}, map[string]bool{} // what an operation takes, and whether its path has a name
	for _, methods := range document.Paths {
		for _, o := range methods {
			body := o.RequestBody.Content["application/json"].Schema
			if name, is := strings.CutPrefix(body.Ref, "#/components/schemas/"); is {
				body = schemas[name]
			}
			takes[o.OperationID] = slices.Sorted(maps.Keys(body.Properties))
			for _, p := range o.Parameters {
				takes[o.OperationID] = append(takes[o.OperationID], p.Name)
				named[o.OperationID] = named[o.OperationID] || p.In == "path"
			}
		}
	}
	for _, s := range api.Services() {
		for i := range s.Methods().Len() {
			if m := s.Methods().Get(i); noHTTP[string(s.Name())] == "" && !m.IsStreamingClient() {
				operations := cmp.Or(operationsOf[string(m.Name())], strings.ToLower(string(m.Name()[:1]))+string(m.Name()[1:]))
				checkRequest(t, m.Input(), operations, takes, named)
				checkAnswer(t, m.Output(), schemas)
			}
		}
	}
	checkRequest(t, (*kinesinv1.ScheduleItem)(nil).ProtoReflect().Descriptor(), "scheduleTask", takes, named)
	checkRequest(t, (*kinesinv1.TaskUpdate)(nil).ProtoReflect().Descriptor(), "changeTask", takes, named)
}

// operationsOf are the operations of procedures that have another name, or several.
var operationsOf = map[string]string{
	"Schedule": "scheduleTask", "Get": "getTask", "List": "listTasks", "Cancel": "cancelTask", "Wait": "waitForTask", "Reschedule": "runTask changeTask",
	"Update": "changeTask", "Redrive": "redriveTask", "Count": "countTasks", "Stats": "getStats",
	"SetGate": "createGate", "SetCron": "createCron updateCron", "CronHistory": "getCronHistory", "GetObjectives": "getObjective", "GetQuotas": "getQuotas",
	"ChangeDeadLetters": "redriveDeadLetters deleteDeadLetters", "ControlChain": "pauseChain extendChain", "ControlJob": "pauseJob",
	"Register": "registerWorker", "Claim": "claimTasks", "SetResults": "sendResults", "Heartbeat": "sendHeartbeat",
}

// requestsBut are the fields of requests that no operation of theirs takes.
var requestsBut = map[protoreflect.Name]but{
	"ScheduleRequest":          {"items": "the body is one", "again": "for clients that retry by themselves", "first": "for clients that retry by themselves", "elapsed": "for clients that retry by themselves"},
	"GetRequest":               {"ids": oneTask, "keys": oneTask, "with_payload": "as payload"},
	"CancelRequest":            {"ids": oneTask, "keys": oneTask},
	"WaitRequest":              {"ids": oneTask, "keys": oneTask, "wait": "as timeout"},
	"RescheduleRequest":        {"ids": oneTask, "keys": oneTask},
	"RedriveRequest":           {"ids": oneTask, "keys": oneTask},
	"UpdateRequest":            {"updates": "the body is one"},
	"TaskUpdate":               {"key": oneTask},
	"StatsRequest":             {"overview": "for the console"},
	"UpdateLambdaRequest":      {"mode": "it cannot change", "priorities": "they cannot change"},
	"DeleteLambdaRequest":      {"goes_on": "always: a call that is not done answers 202"},
	"ChangeDeadLettersRequest": {"action": byPath},
	"ControlChainRequest":      {"action": byPath},
	"ControlJobRequest":        {"action": byPath},
}

func checkRequest(t *testing.T, d protoreflect.MessageDescriptor, operations string, takes map[string][]string, named map[string]bool) {
	t.Helper()
	var taken []string
	first := 0 // fields that are in the path
	for id := range strings.FieldsSeq(operations) {
		if _, found := takes[id]; !found {
			t.Errorf("%s: no operation %s", d.Name(), id)
		}
		taken = append(taken, takes[id]...)
		if named[id] && requestsBut[d.Name()][fieldsOf(d, true)[0]] == "" {
			first = 1
		}
	}
	requestsBut[d.Name()].check(t, string(d.Name())+" over HTTP", fieldsOf(d, true)[first:], func(field string) bool { return slices.Contains(taken, field) })
}

// answersBut are the fields of answers that are answered by a part of them, but for messages.
var answersBut = map[protoreflect.Name]but{
	"CreateLambdaResponse": {"duplicate": asStatus},
	"SetCronResponse":      {"duplicate": asStatus},
	"CreateGroupResponse":  {"duplicate": asStatus},
	"SealGroupResponse":    {"duplicate": "a group that is sealed is answered either way"},
	"Problem":              {"text": "as detail, see RFC 9457"},
	"ResultAck":            {"task": inClaim},
	"Held":                 {"task": inClaim, "attempt": inClaim},
	"Claimed":              {"task": inClaim},
}

// answersAs are answers that HTTP has as another schema.
var answersAs = map[protoreflect.Name]string{"RegisterResponse": "Registered", "HeartbeatResponse": "Heartbeat", "ClaimResponse": "Claims", "SetResultsResponse": "ResultAcks"}

// checkAnswer checks the schema of an answer, and of what is in it. Of an answer without one, the messages inside have it.
func checkAnswer(t *testing.T, d protoreflect.MessageDescriptor, schemas map[string]objectSchema) {
	t.Helper()
	schema, found := schemas[string(d.Name())]
	if !found {
		schema, found = schemas[answersAs[d.Name()]]
	}
	has := func(field string) bool {
		_, is := schema.Properties[field]
		return is || !found && d.Fields().ByName(protoreflect.Name(field)).Message() != nil
	}
	answersBut[d.Name()].check(t, string(d.Name())+" over HTTP", fieldsOf(d, false), has)
	for i := range d.Fields().Len() {
		if inside := d.Fields().Get(i).Message(); inside != nil && !inside.IsMapEntry() && inside != d {
			checkAnswer(t, inside, schemas)
		}
	}
}

// TestCommandsHaveEachField looks for a flag with the name of each field of a request.
func TestCommandsHaveEachField(t *testing.T) {
	const argument = "an argument"
	flag := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	task := but{
		"lambda": argument, "due": "as --at", "delay": "as --in", "backoff_min": "as --backoff", "backoff_max": "as --backoff", "tags": "as --tag",
		"request_id": "the SDK chooses", "blob": "the SDK stores large payloads", "else": "in the file of --then", "finally": "in the file of --then",
	}
	cron := but{"name": argument, "version": "set reads it", "tags": "as --tag", "dry_run": "cron preview shows what would fire"}
	lambda := but{"name": argument, "breaker": "as --breaker-failures and --breaker-window", "backoff_min": "as --backoff", "backoff_max": "as --backoff", "target_headers": "as --target-header", "target_secrets": "as --target-secret-file"}
	names := but{"ids": argument, "keys": "as --key", "due": "as --at", "delay": "as --in"}
	for command, c := range map[string]struct {
		request proto.Message
		but     but
	}{
		"schedule":      {&kinesinv1.ScheduleItem{}, task},
		"update":        {&kinesinv1.TaskUpdate{}, but{"id": argument, "due": "as --at", "delay": "as --in", "backoff_min": "as --backoff", "backoff_max": "as --backoff", "blob": task["blob"]}},
		"reschedule":    {&kinesinv1.RescheduleRequest{}, names},
		"redrive":       {&kinesinv1.RedriveRequest{}, but{"ids": argument, "keys": "as --key", "request_id": task["request_id"], "blob": task["blob"]}},
		"cancel":        {&kinesinv1.CancelRequest{}, but{"ids": argument, "keys": "as --key"}},
		"list":          {&kinesinv1.ListRequest{}, but{"lambda": argument, "cursor": "list turns the pages"}},
		"count":         {&kinesinv1.CountRequest{}, nil},
		"lambda create": {&kinesinv1.CreateLambdaRequest{}, lambda},
		"lambda set":    {&kinesinv1.UpdateLambdaRequest{}, lambda.with(but{"mode": "it cannot change", "fifo": "it cannot change", "priorities": "they cannot change"})},
		"cron create":   {&kinesinv1.SetCronRequest{}, cron},
		"cron set":      {&kinesinv1.SetCronRequest{}, cron.with(but{"lambda": "it cannot change"})},
		"cron pause":    {&kinesinv1.PauseCronRequest{}, but{"name": argument, "until": "as --for"}},
		"cron backfill": {&kinesinv1.BackfillCronRequest{}, but{"name": argument, "request_id": task["request_id"]}},
		"quota set":     {&kinesinv1.SetQuotaRequest{}, but{"lambda": argument}},
		"objective set": {&kinesinv1.SetObjectiveRequest{}, but{"lambda": argument}},
		"gate pause":    {&kinesinv1.SetGateRequest{}, but{"lambda": argument, "action": "pause or drop is the command", "until": "as --for", "request_id": task["request_id"]}},
		"gate resume":   {&kinesinv1.ResumeGateRequest{}, but{"id": argument}},
		"gate list":     {&kinesinv1.ListGatesRequest{}, but{"lambda": argument}},
		"token create":  {&kinesinv1.CreateTokenRequest{}, but{"name": argument, "grants": "as --grant", "lifetime": "as --expires"}},
		"group cancel":  {&kinesinv1.CancelGroupRequest{}, but{"group": argument, "request_id": task["request_id"]}},
	} {
		s := newScript(t)
		help := strings.Join(s.command(&step{}, command+" --help"), "\n")
		var flags []string
		for _, found := range flag.FindAllStringSubmatch(strings.ReplaceAll(help, "=| ", ""), -1) {
			flags = append(flags, strings.ReplaceAll(found[1], "-", "_"))
		}
		c.but.check(t, "kinesin "+command, requestFields(c.request), func(field string) bool { return slices.Contains(flags, field) })
	}
}

// TestModuleHasEachField looks for a variable of the Terraform module, or a member of one, for each setting.
func TestModuleHasEachField(t *testing.T) {
	text := read(t, "../../terraform/modules/lambda/variables*.tf")
	variable := func(name string) string {
		_, rest, _ := strings.Cut(text, "\nvariable \""+name+"\" {")
		rest, _, _ = strings.Cut(rest, "\n}")
		return rest
	}
	member := func(of string) func(string) bool {
		return func(field string) bool {
			return regexp.MustCompile(`\b` + field + `(_seconds|_hours)? += `).MatchString(of)
		}
	}
	but{
		"backoff_min": "in backoff_seconds", "backoff_max": "in backoff_seconds",
		"target_headers": "state of Terraform is no place for secrets", "target_secrets": "as target_headers",
	}.check(t, "Lambda in the module", requestFields(&kinesinv1.Lambda{}), func(field string) bool {
		return variable(field)+variable(field+"_seconds") != ""
	})
	but{}.check(t, "target in the module", requestFields(&kinesinv1.Target{}), member(variable("target")))
	but{}.check(t, "breaker in the module", requestFields(&kinesinv1.Breaker{}), member(variable("breaker")))
	but{"name": "the key of the map", "lambda": "the module's own", "version": "of calls", "managed_by": "the registration"}.check(t, "crons in the module", requestFields(&kinesinv1.Cron{}), member(variable("crons")))
	but{"lambda": "the module's own", "managed_by": "the registration"}.check(t, "objective in the module", requestFields(&kinesinv1.SetObjectiveRequest{}), member(variable("objective")))
	but{"lambda": "the module's own", "managed_by": "the registration", "priority": "in by_priority", "identity": "in admit_by_identity"}.
		check(t, "quotas in the module", requestFields(&kinesinv1.SetQuotaRequest{}), member(variable("quotas")))
}

// TestConsoleHasEachField looks for the fields of tasks and crons in the code of their pages.
func TestConsoleHasEachField(t *testing.T) {
	check := func(but but, what, file string, m proto.Message) {
		text, d := strings.ToLower(read(t, "../../web/"+file)), m.ProtoReflect().Descriptor()
		but.check(t, what, fieldsOf(d, false), func(field string) bool {
			return strings.Contains(text, "get"+strings.ReplaceAll(field, "_", "")+"(") ||
				api.Says(d.Fields().ByName(protoreflect.Name(field)), kinesinv1.E_Shown) && strings.Contains(text, "shown(b.")
		})
	}
	check(but{"chain": "read by its id, see related.go", "member": "its group is, see related.go", "group": "its group is, see related.go"},
		"the page of a task", "task*.go", &kinesinv1.Task{})
	check(but{"revision": "for programs", "version": "for programs", "warning": "of the answer to a change alone"},
		"the page of a cron", "cronspage.go", &kinesinv1.Cron{})
}

// read returns the text of files.
func read(t *testing.T, pattern string) (text string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	return text
}

// TestSDKHasEachField compares the types of package sdk with messages, by the names of fields.
func TestSDKHasEachField(t *testing.T) {
	const (
		asErr  = "as Err"
		option = "an option or an argument"
		bySDK  = "the SDK chooses"
		blob   = "the SDK stores large payloads, and reads them"
		ofHTTP = "for HTTP"
	)
	item := but{"Blob": blob, "Due": "as At", "Delay": "as In", "RequestId": bySDK, "LambdaRef": "the server alone sets it"}
	task := but{"Blob": blob, "Group.Group": "as ID", "Occurrence.Succeeded": "as PreviousSuccess"}
	for _, c := range []struct {
		what string
		left []string
		but  but
	}{
		{"Task", unmatched[sdk.TaskInfo, kinesinv1.Task](), task},
		{"MemberOfGroup", unmatched[sdk.Member, kinesinv1.MemberOfGroup](), task.within("Task")},
		{"ScheduleItem", unmatched[sdk.Item, kinesinv1.ScheduleItem](), item},
		{"CreateGroupRequest", unmatched[sdk.GroupSpec, kinesinv1.CreateGroupRequest](), item.within("Then").with(but{"RequestId": bySDK})},
		{"ScheduleResult", unmatched[sdk.Result, kinesinv1.ScheduleResult](), but{"Problem": asErr}},
		{"TaskUpdate", unmatched[sdk.Update, kinesinv1.TaskUpdate](), but{"Id": option, "Key": option, "IfSeq": option, "Due": "as When", "Delay": "as When", "Blob": blob, "Fields": "what is set, and Reset"}},
		{"ChangeResult", unmatched[sdk.ChangeResult, kinesinv1.ChangeResult](), but{"Problem": asErr, "Note": ofHTTP}},
		{"CancelResult", unmatched[sdk.CancelResult, kinesinv1.CancelResult](), but{"Problem": asErr}},
		{"ListRequest", unmatched[sdk.ListQuery, kinesinv1.ListRequest](), but{"Cursor": "it turns the pages"}},
		{"CountResponse", unmatched[sdk.CountResult, kinesinv1.CountResponse](), nil},
		{"Claimed", unmatched[sdk.Task[string], kinesinv1.Claimed](), but{
			"Task": "in ID", "Blob": blob, "Hold": "the SDK waits", "Prompt": "for the SDK", "Group.Group": "as ID", "Occurrence.Succeeded": "as PreviousSuccess",
		}},
	} {
		c.but.check(t, c.what+" in the SDK", slices.Concat(c.left, slices.Collect(maps.Keys(c.but))), func(f string) bool { return !slices.Contains(c.left, f) })
	}
}

// TestSDKReadsEachField reads a task of which all fields are set.
func TestSDKReadsEachField(t *testing.T) {
	client, err := sdk.NewClient(newScript(t).url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	task, err := client.Get(t.Context(), "k1", sdk.WithPayload())
	if err != nil {
		t.Fatal(err)
	}
	eachField(t, "Task", reflect.ValueOf(task))
}

// eachField reports the fields of a struct, and of those inside, that are zero.
func eachField(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s is not set", path)
	case v.Kind() == reflect.Pointer:
		eachField(t, path, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		eachField(t, path+"[0]", v.Index(0))
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() {
				eachField(t, path+"."+f.Name, v.FieldByIndex(f.Index))
			}
		}
	}
}

// unmatched returns the fields of a message, and of those inside, that a Go type does not have.
func unmatched[T, M any]() []string {
	ofWire, _ := wirecopytest.Unmatched[T, M]()
	return ofWire
}
