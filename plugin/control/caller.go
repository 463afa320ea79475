package control

import (
	"context"
	"net/http"
)

type callerKey struct{}

// Caller is the authenticated caller's name: the one in its certificate, or
// "uid:N" on a unix socket.
func Caller(r *http.Request) string {
	name, _ := r.Context().Value(callerKey{}).(string)
	return name
}

func withCaller(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, name))
}
