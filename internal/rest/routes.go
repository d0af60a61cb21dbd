package rest

import (
	"context"
	"net/http"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

const documentPath = "/v1/openapi.json"

var (
	notFound = fails(http.StatusNotFound)                 //nolint:gochecknoglobals // a status
	conflict = fails(http.StatusConflict)                 //nolint:gochecknoglobals // a status
	full     = fails(http.StatusInsufficientStorage)      //nolint:gochecknoglobals // a status
	creates  = success(http.StatusCreated, http.StatusOK) //nolint:gochecknoglobals // statuses
)

// routes returns the table of all operations, which is also the source of the document.
func routes(s Services) []route {
	return slices.Concat(
		[]route{batchToo(newTaskBatch, op("POST", "/v1/lambdas/{lambda}/tasks", "scheduleTask", "Schedule a task, or a batch of tasks", scheduleTask, creates, notFound, conflict, full))},
		taskRoutes("/v1/tasks/{id}", "Task", ""),
		taskRoutes("/v1/lambdas/{lambda}/keys/{key}", "TaskByKey", " by its key"),
		[]route{
			plain("GET", "/v1/tasks", "listTasks", "List tasks", s.Tasks.List, notFound),
			plain("GET", "/v1/tasks/count", "countTasks", "Count tasks", s.Tasks.Count, notFound),
			plain("GET", "/v1/stats", "getStats", "Live counts and rates by lambda", s.Tasks.Stats, notFound, without("overview")),
		},
		lambdaRoutes(s), quotaRoutes(s), objectiveRoutes(s), deadLetterRoutes(s), jobRoutes(s), gateRoutes(s), cronRoutes(s), chainRoutes(s), groupRoutes(s), workRoutes(s),
	)
}

// taskRoutes returns what there is to do with one task.
func taskRoutes(path, what, how string) []route {
	return []route{
		op("GET", path, "get"+what, "Read a task"+how, getTask, notFound, takes(param{"payload", "also the payload, which takes the right to read payloads", aFlag})),
		op("DELETE", path, "cancel"+what, "Cancel a task"+how, cancelTask, notFound, conditional()),
		op("PATCH", path, "change"+what, "Change the time of a task"+how+", its priority, payload or settings", patchTask, without("id", "key"), notFound, conditional()),
		op("POST", path+"/run", "run"+what, "Run a task now"+how, runTask, without("ids", "keys", "due", "delay"), notFound, conditional(), optionalBody()),
		op("POST", path+"/redrive", "redrive"+what, "Run an ended task anew"+how, redriveTask, without("ids", "keys"), notFound, conditional(), optionalBody()),
		op("GET", path+"/wait", "waitFor"+what, "Wait for the end of a task"+how, waitTask, notFound, takes(param{"timeout", "how long to wait; 30s when not set, at most 60s", aDuration})),
	}
}

func lambdaRoutes(s Services) []route {
	const path = "/v1/lambdas/{name}"
	// A figure that is counted is a live one.
	get := func(ctx context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
		r.Live = r.GetLive() || r.GetCount()
		return s.Lambdas.GetLambda(ctx, r)
	}
	// Who drops tasks calls again while there are more.
	remove := func(ctx context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
		r.GoesOn = r.GetDropTasks()
		return s.Lambdas.DeleteLambda(ctx, r)
	}
	return []route{
		plain("GET", "/v1/lambdas", "listLambdas", "List lambdas", s.Lambdas.ListLambdas),
		part("POST", "/v1/lambdas", "createLambda", "Create a lambda", s.Lambdas.CreateLambda, (*kinesinv1.CreateLambdaResponse).GetLambda, creates, conflict, full),
		part("GET", path, "getLambda", "Read a lambda", get, (*kinesinv1.GetLambdaResponse).GetLambda, notFound),
		part("PATCH", path, "updateLambda", "Change the settings of a lambda", s.Lambdas.UpdateLambda, (*kinesinv1.UpdateLambdaResponse).GetLambda, without("mode", "priorities"), notFound, conflict),
		plain("DELETE", path, "deleteLambda", "Delete a lambda", remove, without("goes_on"), success(http.StatusOK, http.StatusAccepted), notFound, conflict),
	}
}

func quotaRoutes(s Services) []route {
	const path = "/v1/lambdas/{lambda}/quotas"
	return []route{
		plain("GET", "/v1/quotas", "listQuotas", "Read the quotas of all lambdas", s.Quotas.GetQuotas, without("lambda")),
		plain("GET", path, "getQuotas", "Read the quotas of a lambda", s.Quotas.GetQuotas, notFound),
		part("PATCH", path, "setQuota", "Change a quota of a lambda, or take it away", s.Quotas.SetQuota, (*kinesinv1.SetQuotaResponse).GetQuota, notFound),
	}
}

func objectiveRoutes(s Services) []route {
	const path = "/v1/lambdas/{lambda}/objective"
	get := func(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (*kinesinv1.ObjectiveStatus, error) {
		all, err := s.Objectives.GetObjectives(ctx, r)
		if err == nil && len(all.GetObjectives()) == 0 {
			err = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "lambda %s has no objective; PUT sets one", r.GetLambda())
		}
		if err != nil {
			return nil, err
		}
		return all.GetObjectives()[0], nil
	}
	return []route{
		plain("GET", "/v1/objectives", "listObjectives", "How the objectives of all lambdas are met", s.Objectives.GetObjectives, without("lambda")),
		plain("GET", path, "getObjective", "How the objective of a lambda is met", get, notFound),
		part("PUT", path, "setObjective", "Set the objective of a lambda", s.Objectives.SetObjective, (*kinesinv1.SetObjectiveResponse).GetObjective, notFound),
		plain("DELETE", path, "deleteObjective", "Delete the objective of a lambda", s.Objectives.DeleteObjective, notFound),
	}
}

func deadLetterRoutes(s Services) []route {
	const path = "/v1/lambdas/{lambda}/dead-letters"
	goesOn := success(http.StatusOK, http.StatusAccepted) // to be called again, or SQS goes on by itself
	return []route{
		plain("GET", path, "listDeadLetters", "Show messages of the dead-letter queues of a deliver lambda", s.DeadLetters.ListDeadLetters, notFound, conflict),
		plain("GET", path+"/count", "countDeadLetters", "Count them, and see how far a redrive is", s.DeadLetters.CountDeadLetters, notFound, conflict),
		plain("POST", path+"/redrive", "redriveDeadLetters", "Move them back to the queue of the lambda", s.DeadLetters.ChangeDeadLetters, action("redrive"), goesOn, notFound, conflict),
		plain("POST", path+"/delete", "deleteDeadLetters", "Delete them", s.DeadLetters.ChangeDeadLetters, action("delete"), goesOn, notFound, conflict),
	}
}

func jobRoutes(s Services) []route {
	const path = "/v1/jobs/{id}"
	routes := []route{
		plain("GET", "/v1/jobs", "listJobs", "List jobs", s.Jobs.ListJobs),
		part("POST", "/v1/jobs", "createJob", "Change a set of tasks", s.Jobs.CreateJob, (*kinesinv1.CreateJobResponse).GetJob, creates, notFound, conflict),
		part("GET", path, "getJob", "Read a job", s.Jobs.GetJob, (*kinesinv1.GetJobResponse).GetJob, notFound),
	}
	for _, verb := range []string{"pause", "resume", "stop"} {
		routes = append(routes, part("POST", path+"/"+verb, verb+"Job", "Have a job "+verb, s.Jobs.ControlJob, (*kinesinv1.ControlJobResponse).GetJob, action(verb), notFound, conflict))
	}
	return routes
}

func gateRoutes(s Services) []route {
	return []route{
		plain("GET", "/v1/gates", "listGates", "List gates", s.Gates.ListGates, notFound),
		part("POST", "/v1/gates", "createGate", "Hold tasks of a lambda back, or drop them", s.Gates.SetGate, (*kinesinv1.SetGateResponse).GetGate, creates, notFound, conflict),
		part("GET", "/v1/gates/{id}", "getGate", "Read a gate, and how many tasks it holds", s.Gates.GetGate, (*kinesinv1.GetGateResponse).GetGate, notFound),
		part("POST", "/v1/gates/{id}/resume", "resumeGate", "End a gate, at once or at a pace", s.Gates.ResumeGate, (*kinesinv1.ResumeGateResponse).GetGate, notFound),
	}
}

func cronRoutes(s Services) []route {
	const path = "/v1/crons/{name}"
	update := func(ctx context.Context, r *kinesinv1.SetCronRequest) (*kinesinv1.SetCronResponse, error) {
		if r.GetCron().GetVersion() == 0 {
			return nil, invalid("version is missing: want that of the cron as it was read; POST /v1/crons creates one")
		}
		return s.Crons.SetCron(ctx, r)
	}
	return []route{
		plain("GET", "/v1/crons", "listCrons", "List crons, without their payloads", s.Crons.ListCrons, notFound),
		part("POST", "/v1/crons", "createCron", "Create a cron", s.Crons.SetCron, (*kinesinv1.SetCronResponse).GetCron, without("version"), creates, notFound, conflict),
		part("GET", path, "getCron", "Read a cron", s.Crons.GetCron, (*kinesinv1.GetCronResponse).GetCron, notFound),
		part("PUT", path, "updateCron", "Replace the settings of a cron", update, (*kinesinv1.SetCronResponse).GetCron, notFound, conflict, fails(http.StatusPreconditionFailed)),
		plain("DELETE", path, "deleteCron", "Delete a cron", s.Crons.DeleteCron, notFound),
		part("POST", path+"/pause", "pauseCron", "Have a cron fire no more", s.Crons.PauseCron, (*kinesinv1.PauseCronResponse).GetCron, notFound),
		part("POST", path+"/resume", "resumeCron", "Have a cron fire again", s.Crons.ResumeCron, (*kinesinv1.ResumeCronResponse).GetCron, notFound),
		plain("POST", path+"/run", "runCron", "Schedule a task as the cron would, now", s.Crons.RunCron, success(http.StatusCreated), notFound, full),
		part("POST", path+"/backfill", "backfillCron", "Schedule the occurrences of a past range, as a job", s.Crons.BackfillCron, (*kinesinv1.BackfillCronResponse).GetJob, creates, notFound),
		plain("GET", path+"/history", "getCronHistory", "See what became of nominal times, newest first", s.Crons.CronHistory, notFound),
	}
}

func chainRoutes(s Services) []route {
	const path = "/v1/chains/{id}"
	routes := []route{
		plain("GET", path, "getChain", "See a chain by any of its tasks", s.Chains.GetChain, notFound),
		plain("POST", path+"/extend", "extendChain", "Give the tasks of a chain that have not started another time until which they may", s.Chains.ControlChain, action("extend"), notFound, conflict),
	}
	for _, verb := range []string{"cancel", "pause", "resume", "redrive"} {
		routes = append(routes, plain("POST", path+"/"+verb, verb+"Chain", "Have a chain "+verb, s.Chains.ControlChain, action(verb), without("start_before"), notFound, conflict))
	}
	return routes
}

func groupRoutes(s Services) []route {
	const path = "/v1/groups/{group}"
	return []route{
		part("POST", "/v1/groups", "createGroup", "Create a group", s.Groups.CreateGroup, (*kinesinv1.CreateGroupResponse).GetGroup, creates, notFound, conflict),
		part("GET", "/v1/groups/{id}", "getGroup", "Read a group, its members counted by state", s.Groups.GetGroup, (*kinesinv1.GetGroupResponse).GetGroup, notFound),
		batchToo(newMemberBatch, op("POST", path+"/members", "addMembers", "Schedule members of a group: all of them, or none; of a batch all lines that come together", addMembers, creates, notFound, conflict,
			fails(http.StatusPreconditionFailed), full, takes(
				param{"at", "of a batch: how many members the group has, so that a repeated call changes nothing; those that it has now when not set", aNumber},
				param{"lambda", "of a batch: for lines that name none", aText}))),
		plain("GET", path+"/members", "listMembers", "List members of a group in their order, with their results", s.Groups.ListMembers, notFound),
		part("POST", path+"/seal", "sealGroup", "Say that a group gets no more members", s.Groups.SealGroup, (*kinesinv1.SealGroupResponse).GetGroup, notFound, conflict, fails(http.StatusPreconditionFailed)),
		plain("POST", path+"/cancel", "cancelGroup", "Seal a group and cancel its members", s.Groups.CancelGroup, success(http.StatusAccepted), notFound, conflict),
	}
}

func workRoutes(s Services) []route {
	register := func(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
		if len(r.GetLambdas())+len(r.GetGroups()) == 0 {
			return nil, invalid("lambdas is empty: want the names of the lambdas whose tasks the worker will claim")
		}
		return s.Workers.Register(ctx, r)
	}
	return []route{
		plain("POST", "/v1/work/register", "registerWorker", "Open a lease for a worker", register, notFound),
		plain("POST", "/v1/work/claim", "claimTasks", "Wait for tasks and claim them", s.Workers.Claim, notFound, conflict),
		plain("POST", "/v1/work/heartbeat", "sendHeartbeat", "Renew the lease of a worker", s.Workers.Heartbeat, conflict),
		plain("POST", "/v1/work/results", "sendResults", "Report how attempts ended", s.Workers.SetResults, conflict),
		plain("POST", "/v1/work/leave", "leave", "End the lease of a worker", s.Workers.Leave, conflict),
	}
}

// batchToo has a route take a batch besides a single request.
func batchToo(maker batchMaker, r route) route {
	r.batch = maker
	return r
}
