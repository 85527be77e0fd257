package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// plain is an error of kubectl in plain words, with what to do; nil stays nil.
func (k *Kube) plain(err error, at Place) error {
	if err == nil {
		return nil
	}
	e := asError(err)
	said := e.said()
	hint := ""
	if text, what, ok := policy(said, at.Namespace); ok {
		return fmt.Errorf("%s: %s\n\thint: %s", text, said, what)
	}
	if r, ok := deniedBy(said); ok && e.says("Forbidden") {
		return fmt.Errorf("%w (%s)", lacking(at, []right{r}), said)
	}
	switch {
	case errors.Is(e.Err, context.Canceled):
		return err
	case errors.Is(e.Err, context.DeadlineExceeded):
		said, hint = e.Error(), "the cluster does not answer: kubectl cluster-info"
	case said == "":
		return err
	case strings.Contains(said, "namespaces \"") && e.says("NotFound"):
		said, hint = fmt.Sprintf("there is no namespace %s (%s)", at.Namespace, said), "kubectl create namespace "+at.Namespace
	case e.says("Forbidden"):
		said, hint = "this account may not do that: "+said,
			"ask for a role in namespace "+at.Namespace+" that may create, get, list and delete what the manifest holds, and get pods/log"
	case e.says("Unauthorized"), strings.Contains(said, "You must be logged in"):
		hint = "log in to the cluster again; kubectl auth whoami"
	case strings.Contains(said, "conversion webhook"):
		said, hint = "the operator of Dynamo does not answer: "+said, "kubectl get pods --all-namespaces | grep dynamo-operator"
	case strings.Contains(said, "failed calling webhook"):
		hint = "the webhook's service does not answer: ask whoever runs the cluster"
	case strings.Contains(said, "no matches for kind"):
		said, hint = "the cluster does not know a kind of the manifest: "+said, "kubectl api-resources"
	case strings.Contains(said, "does not exist") && strings.Contains(said, "context"):
		hint = "kubectl config get-contexts lists those that there are"
	case !e.refused():
		said, hint = "the cluster does not answer: "+said, "check the network and the kubeconfig, then repeat the command"
	}
	if hint != "" {
		said += "\n\thint: " + hint
	}
	return errors.New(said)
}
