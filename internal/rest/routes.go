package rest

import (
	"net/http"
	"slices"
)

const documentPath = "/v1/openapi.json"

var (
	withPayload = takes(param{"payload", kindFlag, "also the payload, which takes the right to read payloads"}) //nolint:gochecknoglobals // a parameter
	withTimeout = takes(param{"timeout", kindDuration, "how long to wait; 30s when not set, at most 60s"})      //nolint:gochecknoglobals // a parameter
	where       = param{"where", kindText, "a filter expression"}                                               //nolint:gochecknoglobals // a parameter
	notFound    = fails(http.StatusNotFound)                                                                    //nolint:gochecknoglobals // a status
	conflict    = fails(http.StatusConflict)                                                                    //nolint:gochecknoglobals // a status
)

// routes returns the table of all operations, which is also the source of the document.
func routes() []route {
	return slices.Concat(
		[]route{batchToo(newTaskBatch, op("POST", "/v1/lambdas/{lambda}/tasks", "scheduleTask", "Schedule a task, or a batch of tasks", scheduleTask, without("lambda"),
			success(http.StatusCreated, http.StatusOK), notFound, conflict, fails(http.StatusInsufficientStorage)))},
		taskRoutes("/v1/tasks/{id}", "Task", ""),
		taskRoutes("/v1/lambdas/{lambda}/keys/{key}", "TaskByKey", " by its key"),
		[]route{
			op("GET", "/v1/tasks", "listTasks", "List tasks", listTasks, notFound, takes(where,
				param{"lambda", kindText, "only of this lambda"}, param{"state", kindText, "only in this state"},
				param{"limit", kindNumber, "tasks of a page; 100 when not set, at most 1000"}, param{"cursor", kindText, "next of the page before"},
				param{"order", kindText, "due (live tasks), -created (all, the newest first), -ended (ended ones, the newest end first); when not set live, then ended ones, where that is cheap"},
				param{"max_examined", kindNumber, "with the orders -created and -ended: most rows to read for the first page; a list that needs more is refused"})),
			op("GET", "/v1/tasks/count", "countTasks", "Count tasks", countTasks, notFound,
				takes(where, param{"exact", kindFlag, "count each task, whatever it costs, where the store would estimate"})),
			op("GET", "/v1/stats", "getStats", "Live counts and rates by lambda", getStats, notFound, takes(param{"lambda", kindText, "only of this lambda"})),
		},
		lambdaRoutes(), quotaRoutes(), objectiveRoutes(), deadLetterRoutes(), jobRoutes(), gateRoutes(), cronRoutes(), chainRoutes(), groupRoutes(), workRoutes(),
	)
}

// taskRoutes returns what there is to do with one task.
func taskRoutes(path, what, how string) []route {
	return []route{
		op("GET", path, "get"+what, "Read a task"+how, getTask, notFound, withPayload),
		op("DELETE", path, "cancel"+what, "Cancel a task"+how, cancelTask, notFound, conditional()),
		op("PATCH", path, "change"+what, "Change the time of a task"+how+", its priority, payload or settings", patchTask, without("id", "key"), notFound, conditional()),
		op("POST", path+"/run", "run"+what, "Run a task now"+how, runTask, without("ids", "keys", "due", "delay"), notFound, conditional(), optionalBody()),
		op("POST", path+"/redrive", "redrive"+what, "Run an ended task anew"+how, redriveTask, without("ids", "keys"), notFound, conditional(), optionalBody()),
		op("GET", path+"/wait", "waitFor"+what, "Wait for the end of a task"+how, waitTask, notFound, withTimeout),
	}
}

func lambdaRoutes() []route {
	return []route{
		op("GET", "/v1/lambdas", "listLambdas", "List lambdas", listLambdas),
		op("POST", "/v1/lambdas", "createLambda", "Create a lambda", createLambda, success(http.StatusCreated, http.StatusOK), conflict, fails(http.StatusInsufficientStorage)),
		op("GET", "/v1/lambdas/{lambda}", "getLambda", "Read a lambda", getLambda, notFound, takes(param{"live", kindFlag, "also live figures"},
			param{"count", kindFlag, "also those figures that are counted by reading tasks"})),
		op("PATCH", "/v1/lambdas/{lambda}", "updateLambda", "Change the settings of a lambda", updateLambda, without("name", "mode", "priorities"), notFound, conflict),
		op("DELETE", "/v1/lambdas/{lambda}", "deleteLambda", "Delete a lambda", deleteLambda, success(http.StatusOK, http.StatusAccepted), notFound, conflict,
			takes(param{"drop_tasks", kindFlag, "drop its live tasks instead of refusing"})),
	}
}

func deadLetterRoutes() []route {
	const path = "/v1/lambdas/{lambda}/dead-letters"
	priority := param{"priority", kindText, "only of this priority"}
	return []route{
		op("GET", path, "listDeadLetters", "Show messages of the dead-letter queues of a deliver lambda", listDeadLetters, notFound, conflict, withPayload,
			takes(priority, param{"limit", kindNumber, "messages; 100 when not set, at most 1000"})),
		op("GET", path+"/count", "countDeadLetters", "Count them, and see how far a redrive is", countDeadLetters, notFound, conflict, takes(priority)),
		op("POST", path+"/redrive", "redriveDeadLetters", "Move them back to the queue of the lambda", changeDeadLetters("redrive"), without("action", "lambda"),
			success(http.StatusOK, http.StatusAccepted), notFound, conflict, optionalBody()),
		op("POST", path+"/delete", "deleteDeadLetters", "Delete them", changeDeadLetters("delete"), without("action", "lambda"),
			success(http.StatusOK, http.StatusAccepted), notFound, conflict, optionalBody()),
	}
}

func jobRoutes() []route {
	routes := []route{
		op("GET", "/v1/jobs", "listJobs", "List jobs", listJobs),
		op("POST", "/v1/jobs", "createJob", "Change a set of tasks", createJob, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", "/v1/jobs/{id}", "getJob", "Read a job", getJob, notFound),
	}
	for _, action := range []string{"pause", "resume", "stop"} {
		routes = append(routes, op("POST", "/v1/jobs/{id}/"+action, action+"Job", "Have a job "+action, controlJob(action), notFound, conflict))
	}
	return routes
}

func gateRoutes() []route {
	return []route{
		op("GET", "/v1/gates", "listGates", "List gates", listGates, notFound,
			takes(param{"lambda", kindText, "only of this lambda"}, param{"ended", kindFlag, "also those that ended in the last 30 days"})),
		op("POST", "/v1/gates", "createGate", "Hold tasks of a lambda back, or drop them", setGate, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", "/v1/gates/{id}", "getGate", "Read a gate, and how many tasks it holds", getGate, notFound),
		op("POST", "/v1/gates/{id}/resume", "resumeGate", "End a gate, at once or at a pace", resumeGate, without("id"), notFound, optionalBody()),
	}
}

func workRoutes() []route {
	return []route{
		op("POST", "/v1/work/register", "registerWorker", "Open a lease for a worker", registerWorker, notFound),
		op("POST", "/v1/work/claim", "claimTasks", "Wait for tasks and claim them", claimTasks, notFound, conflict),
		op("POST", "/v1/work/heartbeat", "sendHeartbeat", "Renew the lease of a worker", sendHeartbeat, conflict),
		op("POST", "/v1/work/results", "sendResults", "Report how attempts ended", sendResults, conflict),
		op("POST", "/v1/work/leave", "leave", "End the lease of a worker", leave, conflict),
	}
}

// batchToo has a route take a batch besides a single request.
func batchToo(maker batchMaker, r route) route {
	r.batch = maker
	return r
}
