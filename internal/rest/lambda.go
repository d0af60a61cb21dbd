package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// takeAway has a change that says 0 for a setting take that away, as the wire says it.
func takeAway(l *kinesinv1.Lambda, name string) {
	switch {
	case name == "key_retention" && l.GetKeyRetention() == 0:
		l.KeyRetention = -1
	case name == "start_within" && l.GetStartWithin() == 0:
		l.StartWithin = -1
	case name == "retry_share" && l.GetRetryShare() == 0:
		l.RetryShare = -1
	case name == "limit_key_concurrency" && l.GetLimitKeyConcurrency() == 0:
		l.LimitKeyConcurrency = -1
	case name == "limit_key_rate" && l.GetLimitKeyRate() == 0:
		l.LimitKeyRate = -1
	case name == "priority_weights" && len(l.GetPriorityWeights()) == 0:
		l.PriorityWeights = map[string]uint32{"": 0}
	}
}

func updateLambda(c *call, r *kinesinv1.UpdateLambdaRequest) (int, *kinesinv1.Lambda, error) {
	l := r.GetLambda()
	l.Name = c.vars["name"]
	for _, name := range c.given {
		takeAway(l, name)
	}
	response, err := c.Lambdas.UpdateLambda(c.r.Context(), r)
	return http.StatusOK, response.GetLambda(), err
}
