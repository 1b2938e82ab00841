package derive

import (
	"context"

	"github.com/weighmaster/weighmaster/kernels"
)

func selfCheck(ctx context.Context) (kernels.Report, error) {
	source, product, err := example(ctx)
	if err != nil {
		return kernels.Report{}, err
	}
	return Check(ctx, source, product, Options{})
}
