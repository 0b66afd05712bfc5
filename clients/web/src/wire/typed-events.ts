/** `EventTarget` whose events have typed details: `Events` maps the name of an event to the type of its `detail`. */
export interface TypedEvents<Events> {
  addEventListener<Name extends keyof Events & string>(
    type: Name,
    listener: (event: CustomEvent<Events[Name]>) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<Name extends keyof Events & string>(type: Name, listener: (event: CustomEvent<Events[Name]>) => unknown): void;
  dispatchEvent(event: Event): boolean;
}

/** The class to extend: at run time `EventTarget` itself. */
export const TypedEvents: new <Events>() => TypedEvents<Events> = EventTarget as never;
