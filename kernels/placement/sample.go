package placement

// sampleLog is a load on two GPUs with nothing left behind.
const sampleLog = `llama_prepare_model_devices: using device CUDA0 (NVIDIA A100 80GB PCIe) (0000:00:01.0) - 80636 MiB free
llama_prepare_model_devices: using device CUDA1 (NVIDIA A100 80GB PCIe) (0000:00:02.0) - 80636 MiB free
llama_model_loader: loaded meta data with 30 key-value pairs and 21 tensors from model.gguf (version GGUF V3 (latest))
print_info: file size   = 9.50 MiB (16.01 BPW)
load_tensors: loading model tensors, this can take a while... (load_mode = none)
load_tensors: layer   0 assigned to device CUDA0, is_swa = 0
load_tensors: layer   1 assigned to device CUDA1, is_swa = 0
load_tensors: layer   2 assigned to device CUDA1, is_swa = 0
tensor token_embd.weight (2 MiB bf16) buffer type overridden to CUDA0
model has unused tensor blk.2.extra.weight (size = 524288 bytes) -- ignoring
load_tensors: offloading output layer to GPU
load_tensors: offloading 2 repeating layers to GPU
load_tensors: offloaded 3/3 layers to GPU
load_tensors:        CUDA0 model buffer size =     5.00 MiB
load_tensors:        CUDA1 model buffer size =     4.00 MiB
llama_context: constructing llama_context
llama_context:  CUDA_Host  output buffer size =     0.64 MiB
llama_kv_cache:      CUDA0 KV buffer size =     8.00 MiB
llama_kv_cache:      CUDA1 KV buffer size =     8.00 MiB
sched_reserve:      CUDA0 compute buffer size =    16.00 MiB
sched_reserve:  CUDA_Host compute buffer size =     2.00 MiB
`

func sampleWant() Want {
	return Want{Devices: []string{"CUDA0", "CUDA1"}, Bytes: 9<<20 + 1<<19, Tensors: 21}
}
