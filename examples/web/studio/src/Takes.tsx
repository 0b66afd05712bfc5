/** A snapshot or a recording that was kept. */
export interface Take {
  readonly url: string;
  readonly name: string;
  readonly film: boolean;
}

export function takeOf(file: Blob): Take {
  const film = file.type.startsWith("video/");
  const ending = /^[a-z]+\/([a-z0-9]+)/.exec(file.type)?.[1] ?? "bin"; // "video/mp4;codecs=avc1" is an mp4
  const time = new Date().toLocaleTimeString("sv").replaceAll(":", ".");
  return { url: URL.createObjectURL(file), name: `studio ${time}.${ending}`, film };
}

export function Takes({ takes, drop }: { takes: readonly Take[]; drop: (take: Take) => void }) {
  if (takes.length === 0) return null;
  return (
    <section className="takes" aria-label="Kept pictures and films">
      {takes.map((take) => (
        <figure key={take.url}>
          {take.film ? <video src={take.url} controls loop muted playsInline /> : <img src={take.url} alt="" />}
          <figcaption>
            <a href={take.url} download={take.name}>
              {take.name}
            </a>
            <button
              type="button"
              className="quiet"
              aria-label={`Delete ${take.name}`}
              onClick={() => {
                URL.revokeObjectURL(take.url);
                drop(take);
              }}
            >
              ✕
            </button>
          </figcaption>
        </figure>
      ))}
    </section>
  );
}
