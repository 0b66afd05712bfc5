"""The kinds of model: how author code of each generation of Reactor's APIs is driven.

    generator   a ReactorPipeline: `inference()` is resumed for one yield at a time, commands are applied in between
    batch       a ReactorPipeline with `batch_inference()`, which steps several sessions in one call
    app         a ReactorApp: `process_input`, `generate`, `process_output` for each step
    run_loop    a ReactorModel: `run()` moves by itself, commands are applied at any of its awaits
    blocking    a VideoModel: `start_session()` blocks a thread of its own, handlers run on another

`KINDS` (`table`) has a row for each, made of what the modules have. The rest of the runtime sees a `Driver`, and asks
the row. `interface` says which kind a class is (`Declaration.kind`).
"""
