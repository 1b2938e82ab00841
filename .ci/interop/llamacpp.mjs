// Runs llama.cpp, through its prebuilt binding for Node.js, on one GGUF file.
//
// usage: node llamacpp.mjs MODEL.gguf < REQUEST.json > ANSWER.json
//
// REQUEST: {"prompts": [{"text": string, "ids": [id], "max": count}], "texts": [string]}
// ANSWER:  {"llamacpp": release, "prompts": [{"ids": [id], "generated": [id]}], "texts": [[id]]}
//
// A text is tokenized with special tokens read and none added. Each prompt is
// continued from the ids given, not from the text, greedily on the CPU, until
// an end token (which is among the ids generated) or the count.
import {text} from "node:stream/consumers";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [modelPath] = process.argv.slice(2);
if (modelPath == null) {
    console.error("usage: node llamacpp.mjs MODEL.gguf < REQUEST.json > ANSWER.json");
    process.exit(2);
}
const request = JSON.parse(await text(process.stdin));
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, logLevel: LlamaLogLevel.error, maxThreads: 1});
const model = await llama.loadModel({modelPath, gpuLayers: 0, useMmap: true});

async function generate(prompt) {
    const context = await model.createContext({contextSize: prompt.ids.length + prompt.max + 8, sequences: 1});
    const generated = [];
    const ids = context.getSequence().evaluate(prompt.ids, {temperature: 0, yieldEogToken: true});
    for await (const id of ids) {
        generated.push(id);
        if (generated.length >= prompt.max || model.isEogToken(id))
            break;
    }
    await context.dispose();
    return generated;
}

const prompts = [];
for (const prompt of request.prompts)
    prompts.push({ids: model.tokenize(prompt.text, true), generated: await generate(prompt)});
const texts = request.texts.map((t) => model.tokenize(t, true));
const answer = JSON.stringify({llamacpp: llama.llamaCppRelease.release, prompts, texts});
process.stdout.write(answer + "\n", () => process.exit(0));
