package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func getStats(c *call, _ *none) (int, *kinesinv1.StatsResponse, error) {
	response, err := c.Tasks.Stats(c.r.Context(), &kinesinv1.StatsRequest{Lambda: c.query.Get("lambda")})
	return http.StatusOK, response, err
}
